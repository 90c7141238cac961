{{/*
A key of the configuration, as text: of a variable in extraEnv, or else of `config`, which is read here only as far as a pattern can.
Empty if it is not found. Takes root, table and key.
*/}}
{{- define "relay.key" -}}
{{- trimAll "\"'" (include "relay.quotedKey" .) -}}
{{- end }}

{{/* As "relay.key", with the quotes of `config`: an empty text is "", and not the same as a key that is not found. */}}
{{- define "relay.quotedKey" -}}
{{- $variable := printf "RELAY_%s__%s" (upper .table) (upper .key) -}}
{{- $given := "" -}}
{{- range .root.Values.extraEnv -}}
{{- if eq (upper .name) $variable -}}
{{- $given = ternary (default "\"\"" .value) "" (hasKey . "value") -}}
{{- end -}}
{{- end -}}
{{- if and (not $given) (not .root.Values.existingConfigMap) -}}
{{- $line := regexFind (printf "(?m)^([^#\n]*[\\s{,.])?%s[ \t]*=[ \t]*[^\\s,}#]+" .key) (default "" .root.Values.config) -}}
{{- $given = regexReplaceAll "^.*=[ \t]*" (regexReplaceAll "\\s+" $line " ") "" -}}
{{- end -}}
{{- $given -}}
{{- end }}

{{/* Whether rows wait for their DDL: "yes", "no", or empty where the source has DDL in every partition,
or is not known. */}}
{{- define "relay.waits" -}}
{{- $known := .Files.Get "files/protocols.yaml" | fromYaml -}}
{{- $wait := include "relay.key" (dict "root" . "table" "schema" "key" "wait_for_ddl") -}}
{{- if eq $wait "true" -}}
yes
{{- else if has (include "relay.key" (dict "root" . "table" "route" "key" "from")) $known.sourcesWithDdlInPartition0 -}}
{{- $history := include "relay.quotedKey" (dict "root" . "table" "schema" "key" "history_topic") -}}
{{- ternary "no" "yes" (or (eq $wait "false") (has $history (list "\"\"" "''"))) -}}
{{- end -}}
{{- end }}

{{/*
"yes" if there may be one instance only: rows are spread over other partitions, and watermarks, which are right only where all of
the source is seen, are kept. Formats without watermarks have none to keep.
*/}}
{{- define "relay.isSingle" -}}
{{- $spreads := gt (include "relay.key" (dict "root" . "table" "target" "key" "partitions") | replace "_" "" | int) 0 -}}
{{- $option := "(?m)^[^#\n]*\\bwatermarks[\"']?[ \t]*=[ \t]*[\"']?drop" -}}
{{- $drops := regexMatch $option (default "" $.Values.config) -}}
{{- $drops = or $drops (eq (include "relay.key" (dict "root" . "table" "target" "key" "watermarks")) "drop") -}}
{{- $from := include "relay.key" (dict "root" . "table" "route" "key" "from") -}}
{{- $to := include "relay.key" (dict "root" . "table" "route" "key" "to") -}}
{{- $known := .Files.Get "files/protocols.yaml" | fromYaml -}}
{{- $silent := or (has $from $known.sourcesWithoutWatermarks) (has $to $known.targetsWithoutWatermarks) -}}
{{- with get $known.targetsThatNeedAnOption $to -}}
{{- $option := printf "%s[\"']?[ \t]*=[ \t]*[\"']?%s" (replace "-" "[-_]" .name) .value -}}
{{- $silent = or $silent (not (regexMatch $option (default "" $.Values.config))) -}}
{{- end -}}
{{- if and $spreads (not $drops) (not $silent) -}}
yes
{{- end -}}
{{- end }}

{{/* How the Deployment replaces its pods. */}}
{{- define "relay.strategy" -}}
{{- $given := default dict .Values.strategy -}}
{{- $single := and (eq (include "relay.isSingle" .) "yes") (not $given.rollingUpdate) -}}
{{- $type := default (ternary "Recreate" "RollingUpdate" $single) $given.type -}}
type: {{ $type }}
{{- if eq $type "RollingUpdate" }}
rollingUpdate:
  {{- default (dict "maxSurge" 1 "maxUnavailable" 0) $given.rollingUpdate | toYaml | nindent 2 }}
{{- end }}
{{- end }}
