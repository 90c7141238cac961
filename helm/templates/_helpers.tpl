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

{{- define "relay.labels" -}}
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

{{/* Mistakes between values, which no schema finds. The configuration is read here only as far as a pattern can. */}}
{{- define "relay.check" -}}
{{- if not .Values.existingConfigMap -}}
{{- if not (trim (default "" .Values.config)) -}}
{{- fail "relay needs a configuration: give `config` (--set-file config=relay.toml), or the name of a ConfigMap in `existingConfigMap`" -}}
{{- end -}}
{{- if and (regexMatch "(?m)^[^#\n]*mode\\s*=\\s*[\"']exactly-once" .Values.config) (not .Values.exactlyOnce.enabled) -}}
{{- fail "`config` asks for exactly-once, which needs a StatefulSet: set exactlyOnce.enabled=true, and exactlyOnce.shards" -}}
{{- end -}}
{{- $drain := regexFind "(?m)^[^#\n]*drain_timeout_seconds\\s*=\\s*[0-9_]+" .Values.config -}}
{{- $seconds := regexFind "[0-9_]+$" $drain | replace "_" "" | default "20" | int -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add $seconds 15 | int) -}}
{{- fail (printf "relay may drain for %d s and then needs some seconds to disconnect: set terminationGracePeriodSeconds to %d or more" $seconds (add $seconds 15)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.exactlyOnce.enabled -}}
{{- if ne (int (default 1 .Values.replicaCount)) 1 -}}
{{- fail "replicaCount is for at-least-once: with exactlyOnce.enabled set exactlyOnce.shards" -}}
{{- end -}}
{{- end -}}
{{- include "relay.checkRunning" . -}}
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
{{- if and .Values.exactlyOnce.enabled (gt $pods 0) -}}
{{- fail (printf (print "%d pods of at-least-once are running; " $advice) $pods "deployment" $name) -}}
{{- end -}}
{{- end }}
