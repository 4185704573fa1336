{{- define "sandbox-apiserver.selector" -}}
app.kubernetes.io/name: {{ . }}
{{- end }}

{{- define "sandbox-apiserver.labels" -}}
{{ include "sandbox-apiserver.selector" .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandbox-apiserver.image" -}}
image: {{ printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
{{- end }}

{{- define "sandbox-apiserver.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sandbox-apiserver.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/* Name of the Secret of derived access tokens: the user's, or the one that this chart makes. */}}
{{- define "sandbox-apiserver.envdSecretName" -}}
{{ .Values.apiserver.e2b.envdSecret.secretName | default "sandbox-apiserver-envd-secret" }}
{{- end }}

{{/* What cannot work is refused here, before anything is installed. */}}
{{- define "sandbox-apiserver.check" -}}
{{- with .Values.apiserver.e2b }}
{{- if .enabled }}
{{- if not .apiKeySecret.name }}
{{- fail "apiserver.e2b.enabled needs apiserver.e2b.apiKeySecret.name: a Secret with the API keys" }}
{{- end }}
{{- if not .domain }}
{{- fail "apiserver.e2b.enabled needs apiserver.e2b.domain: clients reach <port>-<sandboxID>.<domain>" }}
{{- end }}
{{- if not (or .envdSecret.value .envdSecret.secretName) }}
{{- fail "apiserver.e2b.enabled needs apiserver.e2b.envdSecret.value or apiserver.e2b.envdSecret.secretName: the secret of access tokens" }}
{{- end }}
{{- if and .envdSecret.value .envdSecret.secretName }}
{{- fail "apiserver.e2b.envdSecret.value and apiserver.e2b.envdSecret.secretName exclude each other" }}
{{- end }}
{{- if eq (int .port) (int $.Values.apiserver.securePort) }}
{{- fail "apiserver.e2b.port and apiserver.securePort must differ" }}
{{- end }}
{{- end }}
{{- end }}
{{- if not (or .Values.certManager.enabled .Values.certManager.caBundle) }}
{{- fail "certManager.enabled=false needs certManager.caBundle: the certificates that the one in certManager.servingCertSecret is signed by" }}
{{- end }}
{{- end }}
