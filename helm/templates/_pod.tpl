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
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: relay
      image: {{ include "relay.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, --config, /etc/relay/relay.toml]
      env:
        {{- include "relay.env" . | nindent 8 }}
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
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/relay
          readOnly: true
        - name: tmp
          mountPath: /tmp
        {{- range $i, $file := .Values.secrets.files }}
        - name: secret-{{ $i }}
          mountPath: {{ $file.mountPath }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "relay.configMapName" . }}
    - name: tmp
      emptyDir:
        sizeLimit: 64Mi
    {{- range $i, $file := .Values.secrets.files }}
    - name: secret-{{ $i }}
      secret:
        secretName: {{ $file.secretName }}
        defaultMode: 288 # 0440: root and the fsGroup
        {{- with $file.items }}
        items:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "relay.env" -}}
- name: RELAY_HTTP__HOST
  value: "0.0.0.0"
- name: RELAY_HTTP__PORT
  value: {{ .Values.http.port | quote }}
{{- if gt (int .Values.processes) 1 }}
- name: RELAY_DELIVERY__PROCESSES
  value: {{ .Values.processes | quote }}
{{- end }}
{{- if .Values.exactlyOnce.enabled }}
- name: RELAY_DELIVERY__MODE
  value: exactly-once
- name: RELAY_DELIVERY__SHARDS
  value: {{ .Values.exactlyOnce.shards | quote }}
- name: RELAY_DELIVERY__SHARD
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
{{- end }}
{{- range .Values.secrets.env }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .key }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
