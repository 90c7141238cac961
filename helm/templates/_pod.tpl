{{/* The pod, the same for both kinds of workload. */}}
{{- define "relay.pod" -}}
metadata:
  annotations:
    {{- if not .Values.existingConfigMap }}
    checksum/config: {{ sha256sum .Values.config }}
    {{- end }}
    kubectl.kubernetes.io/default-container: relay
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "relay.selectorLabels" . | nindent 4 }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "relay.serviceAccountName" . }}
  automountServiceAccountToken: false
  # The variables that Kubernetes makes of a service called relay begin with RELAY_, as relay's own do.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- include "relay.names" . | nindent 2 }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: relay
      image: {{ include "relay.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, --config, /etc/relay/relay.toml]
      env:
        {{- include "relay.env" (dict "root" . "job" false) | nindent 8 }}
      ports:
        - name: http
          containerPort: {{ .Values.http.port }}
      startupProbe:
        httpGet: {path: /livez, port: http}
        {{- toYaml .Values.startupProbe | nindent 8 }}
      livenessProbe:
        httpGet: {path: /livez, port: http}
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        {{- toYaml .Values.readinessProbe | nindent 8 }}
      {{- with .Values.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "relay.mounts" . | nindent 8 }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "relay.volumes" (dict "root" . "configMap" (include "relay.configMapName" .) "scratch" "64Mi") | nindent 4 }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "relay.placement" . | nindent 2 }}
{{- end }}

{{/* What every container with the configuration mounts. */}}
{{- define "relay.mounts" -}}
- name: config
  mountPath: /etc/relay
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if .Values.kerberos.existingConfigMap }}
# Where the libraries of Kerberos and Java look.
- name: krb5
  mountPath: /etc/krb5.conf
  subPath: krb5.conf
  readOnly: true
{{- end }}
{{- range $i, $file := .Values.secrets.files }}
- name: secret-{{ $i }}
  mountPath: {{ $file.mountPath }}
  readOnly: true
{{- end }}
{{- end }}

{{/* Their volumes. Takes root, the name of the ConfigMap, and the size of /tmp. */}}
{{- define "relay.volumes" -}}
- name: config
  configMap:
    name: {{ .configMap }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .scratch }}
{{- with .root.Values.kerberos.existingConfigMap }}
- name: krb5
  configMap:
    name: {{ . }}
{{- end }}
{{- range $i, $file := .root.Values.secrets.files }}
- name: secret-{{ $i }}
  secret:
    secretName: {{ $file.secretName }}
    defaultMode: 288 # 0440: root and the fsGroup
    {{- with $file.items }}
    items:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* How a pod finds names. */}}
{{- define "relay.names" -}}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where a pod runs. */}}
{{- define "relay.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The variables of a container with the configuration. Takes root, and whether it is a job, which has no number of a shard.
*/}}
{{- define "relay.env" -}}
- name: RELAY_HTTP__HOST
  value: "0.0.0.0"
- name: RELAY_HTTP__PORT
  value: {{ .root.Values.http.port | quote }}
{{- if gt (int .root.Values.processes) 1 }}
- name: RELAY_DELIVERY__PROCESSES
  value: {{ .root.Values.processes | quote }}
{{- end }}
{{- if .root.Values.tracing.enabled }}
- name: RELAY_TRACING__ENABLED
  value: "true"
- name: OTEL_SERVICE_NAME
  value: {{ include "relay.fullname" .root }}
{{- with .root.Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .root.Values.exactlyOnce.enabled }}
- name: RELAY_DELIVERY__MODE
  value: exactly-once
- name: RELAY_DELIVERY__SHARDS
  value: {{ .root.Values.exactlyOnce.shards | quote }}
- name: RELAY_DELIVERY__SHARD
  {{- if .job }}
  value: "0"
  {{- else }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
  {{- end }}
{{- end }}
{{- range .root.Values.secrets.env }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .key }}
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
