{{/*
The alerts of files/alerts.yaml with what is different in this release. `# threshold` stands behind the number that a threshold
takes the place of.
*/}}
{{- define "relay.alerts" -}}
{{- $given := default dict .Values.prometheusRule.alerts -}}
{{- $rules := list -}}
{{- $names := list -}}
{{- $group := first (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- range $rule := $group.rules -}}
{{- $names = append $names $rule.alert -}}
{{- $own := default dict (get $given $rule.alert) -}}
{{- if hasKey $own "threshold" -}}
{{- if not (contains "# threshold" $rule.expr) -}}
{{- fail (printf "prometheusRule.alerts: %s has no threshold" $rule.alert) -}}
{{- end -}}
{{- $number := ternary (printf "%d" (int64 $own.threshold)) (toString $own.threshold) (eq (float64 $own.threshold) (floor $own.threshold)) -}}
{{- $_ := set $rule "expr" (regexReplaceAll "[0-9.]+ # threshold" $rule.expr $number) -}}
{{- end -}}
{{- $_ := set $rule "expr" (replace " # threshold" "" $rule.expr | trim) -}}
{{- with get $own "for" -}}
{{- $_ := set $rule "for" . -}}
{{- end -}}
{{- with $own.severity -}}
{{- $_ := set $rule.labels "severity" . -}}
{{- end -}}
{{- include "relay.checkKeys" (list (printf "prometheusRule.alerts.%s.labels" $rule.alert) $own.labels (list "severity")) -}}
{{- $_ := set $rule "labels" (merge (dict) $rule.labels (default dict $own.labels)) -}}
{{- if ne (toString (get $own "enabled")) "false" -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := $given -}}
{{- if not (has $name $names) -}}
{{- fail (printf "prometheusRule.alerts: unknown alert %s" $name) -}}
{{- end -}}
{{- end -}}
{{- dict "groups" (list (dict "name" $group.name "rules" $rules)) | toYaml -}}
{{- end }}
