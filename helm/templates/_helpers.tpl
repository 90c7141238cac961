{{/* The name of the chart's objects, at most 50 characters: Kubernetes appends to it. */}}
{{- define "relay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "relay.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: relay
{{- end }}

{{/* The labels of every object: the chart's own, and those that all shall have. */}}
{{- define "relay.labels" -}}
{{ include "relay.ownLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "relay.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "relay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "relay.serviceAccountName" -}}
{{- default (ternary (include "relay.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{- define "relay.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "relay.configMapName" -}}
{{- default (include "relay.fullname" .) .Values.existingConfigMap -}}
{{- end }}

{{/* Mistakes between values, which no schema finds. */}}
{{- define "relay.check" -}}
{{- if and (not .Values.existingConfigMap) (not (trim (default "" .Values.config))) -}}
{{- fail "relay needs a configuration: set `config` (--set-file config=relay.toml), or the name of a ConfigMap in `existingConfigMap`" -}}
{{- end -}}
{{- include "relay.checkSecrets" . -}}
{{- if not .Values.existingConfigMap -}}
{{- include "relay.checkConfig" . -}}
{{- end -}}
{{- include "relay.checkVariables" . -}}
{{- include "relay.checkOwnKeys" . -}}
{{- include "relay.checkScaler" . -}}
{{- if not .Values.existingConfigMap -}}
{{- include "relay.checkDrain" . -}}
{{- end -}}
{{- if .Values.exactlyOnce.enabled -}}
{{- if ne (int (default 1 .Values.replicaCount)) 1 -}}
{{- fail "replicaCount is for at-least-once: with exactlyOnce.enabled set exactlyOnce.shards" -}}
{{- end -}}
{{- if .Values.strategy -}}
{{- fail "strategy is for at-least-once: the pods of a StatefulSet are always replaced one by one, each stopped before its successor starts" -}}
{{- end -}}
{{- else if eq (include "relay.key" (dict "root" . "table" "delivery" "key" "mode")) "exactly-once" -}}
{{- fail "`config` asks for exactly-once, which needs a StatefulSet: set exactlyOnce.enabled=true, and exactlyOnce.shards" -}}
{{- end -}}
{{- if include "relay.key" (dict "root" . "table" "delivery" "key" "processes") -}}
{{- fail "`config` sets the number of processes: set the value processes instead of that key" -}}
{{- end -}}
{{- if eq (include "relay.isSingle" .) "yes" -}}
{{- include "relay.checkSingle" . -}}
{{- end -}}
{{- include "relay.checkRunning" . -}}
{{- end }}

{{/*
Secrets that would stand in the ConfigMap or in the pods' specification, also in comments and in tables that the chart does not know:
a key or a parameter with such a name and a value, and a login in an address. The messages do not repeat them.
*/}}
{{- define "relay.checkSecrets" -}}
{{- $names := `(password|passwd|passphrase|secret|(access|account|private|secret|hash)[-_.]?key|(sas|session)[-_.]?token)` -}}
{{- $given := printf `(?i)%s["']?\s*=[ \t]*("""|'''|\\?"[^"\\]|'[^']|[^"'\s&#\\])` $names -}}
{{- $login := `(:[^/"'\s][^"'\s]*|:/[^/"'\s][^"'\s]*|://[^/"'\s]*:[^"'\s]*)@` -}}
{{- $advice := "take it from a Secret: secrets.env for a variable, secrets.files for a file, as in password_file" -}}
{{- if not .Values.existingConfigMap -}}
{{- $config := default "" .Values.config -}}
{{- if regexMatch $given $config -}}
{{- fail (printf "`config` contains a secret, but becomes a ConfigMap: %s" $advice) -}}
{{- end -}}
{{- if regexMatch $login $config -}}
{{- fail (printf "`config` contains an address with a password, but becomes a ConfigMap: %s" $advice) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- $value := default "" .value -}}
{{- if or (and $value (regexMatch (printf "(?i)%s$" $names) .name)) (regexMatch $given $value) (regexMatch $login $value) -}}
{{- fail (printf "extraEnv: %s contains a secret as text: %s" .name $advice) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Refuse what relay would refuse when it starts: invalid TOML, unknown protocols, the brokers of the example. */}}
{{- define "relay.checkConfig" -}}
{{- $read := fromToml .Values.config -}}
{{- if and (hasKey $read "Error") (kindIs "string" $read.Error) -}}
{{- /* The rest of the message may quote the text, which may contain a secret. */ -}}
{{- fail (printf "`config` is not TOML: %s" (regexFind "^toml: line [0-9]+" $read.Error | default "it cannot be read")) -}}
{{- end -}}
{{- if contains "change-me.invalid" .Values.config -}}
{{- fail "`config` is the chart's example, whose brokers do not exist: set your own (--set-file config=relay.toml)" -}}
{{- end -}}
{{- $known := .Files.Get "files/protocols.yaml" | fromYaml -}}
{{- $route := get $read "route" | default dict -}}
{{- range $side, $names := dict "from" $known.sources "to" $known.targets -}}
{{- $name := get (ternary $route dict (kindIs "map" $route)) $side -}}
{{- if and $name (not (has $name $names)) (not $.Values.otherProtocols) -}}
{{- fail (printf "%s in [route] of `config` is %q, which is not one of relay's protocols: %s; for a protocol of another package set otherProtocols=true" $side $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Variables that say what a value says, too: the chart would go by the one, and relay by the other. */}}
{{- define "relay.checkVariables" -}}
{{- $advice := dict "RELAY_DELIVERY__MODE" "exactlyOnce.enabled" "RELAY_DELIVERY__SHARDS" "exactlyOnce.shards" -}}
{{- $_ := set $advice "RELAY_DELIVERY__SHARD" "exactlyOnce.shards; Kubernetes gives every pod its number" -}}
{{- $_ := set $advice "RELAY_DELIVERY__DRAIN_TIMEOUT_SECONDS" "drain_timeout_seconds in the configuration, where the chart sees it" -}}
{{- $_ := set $advice "RELAY_HTTP__PORT" "http.port" -}}
{{- $_ := set $advice "RELAY_DELIVERY__PROCESSES" "processes" -}}
{{- if .Values.tracing.enabled -}}
{{- $_ := set $advice "RELAY_TRACING__ENABLED" "tracing.enabled" -}}
{{- $_ := set $advice "OTEL_SERVICE_NAME" "nameOverride or fullnameOverride" -}}
{{- end -}}
{{- range concat (default list .Values.secrets.env) (default list .Values.extraEnv) -}}
{{- if hasKey $advice (upper .name) -}}
{{- fail (printf "%s: set %s instead of this variable" .name (get $advice (upper .name))) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels and annotations that would be written twice. */}}
{{- define "relay.checkOwnKeys" -}}
{{- $selector := concat (keys (include "relay.selectorLabels" . | fromYaml)) (keys (default dict .Values.commonLabels)) -}}
{{- include "relay.checkKeys" (list "commonLabels" .Values.commonLabels (keys (include "relay.ownLabels" . | fromYaml))) -}}
{{- $labels := keys (include "relay.labels" . | fromYaml) -}}
{{- $annotations := list "kubectl.kubernetes.io/default-container" -}}
{{- if not .Values.existingConfigMap -}}
{{- $annotations = append $annotations "checksum/config" -}}
{{- end -}}
{{- include "relay.checkKeys" (list "podLabels" .Values.podLabels $selector) -}}
{{- include "relay.checkKeys" (list "podAnnotations" .Values.podAnnotations $annotations) -}}
{{- include "relay.checkKeys" (list "serviceMonitor.labels" .Values.serviceMonitor.labels $labels) -}}
{{- include "relay.checkKeys" (list "prometheusRule.labels" .Values.prometheusRule.labels $labels) -}}
{{- include "relay.checkKeys" (list "dashboards.labels" .Values.dashboards.labels $labels) -}}
{{- end }}

{{- define "relay.checkKeys" -}}
{{- $own := index . 2 -}}
{{- range $key, $_ := default dict (index . 1) -}}
{{- if has $key $own -}}
{{- fail (printf "%s: the chart itself sets %s; leave it out" (index $ 0) $key) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether something else than `replicaCount` sets the number of pods. */}}
{{- define "relay.isScaled" -}}
{{- if or .Values.autoscaling.enabled .Values.keda.enabled (kindIs "invalid" .Values.replicaCount) -}}
yes
{{- end -}}
{{- end }}

{{- define "relay.checkScaler" -}}
{{- $scaler := ternary "keda" "autoscaling" .Values.keda.enabled -}}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled -}}
{{- fail "autoscaling and keda would both set the number of pods: enable one of them" -}}
{{- end -}}
{{- if or .Values.autoscaling.enabled .Values.keda.enabled -}}
{{- if .Values.exactlyOnce.enabled -}}
{{- fail (printf "%s is for at-least-once: the number of shards can change only while no pod runs" $scaler) -}}
{{- end -}}
{{- if eq (include "relay.isSingle" .) "yes" -}}
{{- fail (printf "%s: `partitions` in [target] repartitions rows and watermarks are kept, so there may be one pod only" $scaler) -}}
{{- end -}}
{{- $limits := get .Values $scaler -}}
{{- if gt (int $limits.minReplicas) (int $limits.maxReplicas) -}}
{{- fail (printf "%s: minReplicas is more than maxReplicas" $scaler) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.keda.enabled (not .Values.keda.triggers) -}}
{{- fail "keda.triggers: is empty; set the triggers that determine the number of pods, such as one of the type kafka" -}}
{{- end -}}
{{- end }}

{{- define "relay.checkDrain" -}}
{{- $given := include "relay.key" (dict "root" . "table" "delivery" "key" "drain_timeout_seconds") | default "20" | replace "_" "" -}}
{{- if not (regexMatch "^[+]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$" $given) -}}
{{- fail (printf "the chart cannot read drain_timeout_seconds = %s: write it as a decimal number" $given) -}}
{{- end -}}
{{- $needed := addf (ceil (float64 $given)) 15.0 -}}
{{- if lt (float64 .Values.terminationGracePeriodSeconds) $needed -}}
{{- fail (printf "relay may drain for %s s and then needs a few seconds to disconnect: set terminationGracePeriodSeconds to %.0f or more" $given $needed) -}}
{{- end -}}
{{- end }}

{{/* One that sees a part of the source refuses to run, and a rolling update starts a second one: both would end. */}}
{{- define "relay.checkSingle" -}}
{{- $why := "`partitions` in [target] repartitions rows, and watermarks are correct only if one pod reads all of the source" -}}
{{- $or := "or leave out watermarks (watermarks = \"drop\" in [target]), or keep the source's partitions (partitions = 0)" -}}
{{- if gt (int .Values.processes) 1 -}}
{{- fail (printf "%s: set processes=1, %s" $why $or) -}}
{{- end -}}
{{- if .Values.exactlyOnce.enabled -}}
{{- if gt (int .Values.exactlyOnce.shards) 1 -}}
{{- fail (printf "%s: set exactlyOnce.shards=1, %s" $why $or) -}}
{{- end -}}
{{- else if gt (int (default 1 .Values.replicaCount)) 1 -}}
{{- fail (printf "%s: set replicaCount=1, %s" $why $or) -}}
{{- else if ne (include "relay.strategy" . | fromYaml).type "Recreate" -}}
{{- fail (printf "%s: leave strategy out, or set strategy.type=Recreate, %s" $why $or) -}}
{{- end -}}
{{- end }}

{{/* Pods of another kind, or of another number of shards, must not run beside the new ones. Without a cluster, lookup finds nothing. */}}
{{- define "relay.checkRunning" -}}
{{- $name := include "relay.fullname" . -}}
{{- $shards := dig "spec" "replicas" 0 (lookup "apps/v1" "StatefulSet" .Release.Namespace $name) | int -}}
{{- $pods := dig "spec" "replicas" 0 (lookup "apps/v1" "Deployment" .Release.Namespace $name) | int -}}
{{- $wanted := ternary (int .Values.exactlyOnce.shards) 0 .Values.exactlyOnce.enabled -}}
{{- $advice := "partitions would be read twice: first `kubectl scale %s %s --replicas=0`, and wait until the pods are gone" -}}
{{- if not (has $shards (list 0 $wanted)) -}}
{{- fail (printf (print "%d shards of exactly-once are running; " $advice) $shards "statefulset" $name) -}}
{{- end -}}
{{- $processes := 1 -}}
{{- range dig "spec" "template" "spec" "containers" list (lookup "apps/v1" "StatefulSet" .Release.Namespace $name) -}}
{{- range default list .env -}}
{{- if eq .name "RELAY_DELIVERY__PROCESSES" -}}
{{- $processes = int .value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* A single pod is gone before its successor comes. */ -}}
{{- if and .Values.exactlyOnce.enabled (gt $shards 1) (ne $processes (int .Values.processes)) -}}
{{- fail (printf (print "%d shards of %d processes are running; " $advice) $shards $processes "statefulset" $name) -}}
{{- end -}}
{{- if and .Values.exactlyOnce.enabled (gt $pods 0) -}}
{{- fail (printf (print "%d pods of at-least-once are running; " $advice) $pods "deployment" $name) -}}
{{- end -}}
{{- end }}
