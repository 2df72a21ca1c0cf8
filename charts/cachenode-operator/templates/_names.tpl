{{- define "cachenode.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "cachenode.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "cachenode.name" .) }}
{{- end -}}

{{- define "cachenode.selector" -}}
app.kubernetes.io/name: cachenode-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* labels of an object, as a map: those of the chart go before those of the user */ -}}
{{- define "cachenode.labels" -}}
{{- $own := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- toYaml (merge $own (include "cachenode.selector" . | fromYaml) .Values.commonLabels) }}
{{- end -}}

{{- /* metadata of an object: a dict of root, and perhaps name, namespace ("" for none), labels, annotations */ -}}
{{- define "cachenode.metadata" -}}
{{- $root := .root -}}
name: {{ .name | default (include "cachenode.name" $root) }}
{{- $namespace := $root.Release.Namespace }}
{{- if hasKey . "namespace" }}{{ $namespace = .namespace }}{{ end }}
{{- with $namespace }}
namespace: {{ . }}
{{- end }}
labels: {{- toYaml (merge (dict) (.labels | default dict) (include "cachenode.labels" $root | fromYaml)) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) $root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "cachenode.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "cachenode.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "cachenode.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* labels of the pods of the HTTP endpoint for purges: no Service and no NetworkPolicy of the operator selects them */ -}}
{{- define "cachenode.purgeAPISelector" -}}
app.kubernetes.io/name: cachenode-purge-api
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* metadata of a Deployment's pods: a dict of root and selector */ -}}
{{- define "cachenode.podMetadata" -}}
{{- $values := .root.Values -}}
labels: {{- toYaml (merge (dict) .selector $values.podLabels $values.commonLabels) | nindent 2 }}
{{- with merge (dict) $values.podAnnotations $values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* where a Deployment's pods run, and as whom: a dict of root and selector */ -}}
{{- define "cachenode.placement" -}}
{{- $selector := .selector -}}
{{- with .root.Values -}}
{{- with .imagePullSecrets -}}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{ end }}
{{- with .priorityClassName -}}
priorityClassName: {{ . }}
{{ end }}
{{- with .nodeSelector -}}
nodeSelector: {{- toYaml . | nindent 2 }}
{{ end }}
{{- with .tolerations -}}
tolerations: {{- toYaml . | nindent 0 }}
{{ end }}
{{- with .affinity -}}
affinity: {{- toYaml . | nindent 2 }}
{{ end }}
{{- with .topologySpreadConstraints -}}
topologySpreadConstraints:
{{- range . }}
- {{- toYaml (merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector))) | nindent 2 }}
{{- end }}
{{ end }}
{{- end -}}
securityContext: {{- include "cachenode.podSecurity" .root | nindent 2 }}
{{- end -}}
