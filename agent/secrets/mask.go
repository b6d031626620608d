package secrets

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
)

// maskText replaces masked values.
const maskText = "[redacted]"

// publicHeaders are the headers whose values are shown. All other headers may contain credentials.
var publicHeaders = []string{
	"accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "connection",
	"content-length", "content-type", "host", "user-agent", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
}

// lastApplied is the annotation in which kubectl apply stores the manifest.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Mask returns pod without the values of variables, of headers and of the configs of plugins. It does not
// modify pod. The result is read-only, as it shares data with pod.
func Mask(pod *v1.Pod) *v1.Pod {
	masked := *pod
	masked.Spec.InitContainers = maskEach(pod.Spec.InitContainers, maskContainer)
	masked.Spec.Containers = maskEach(pod.Spec.Containers, maskContainer)
	masked.Spec.EphemeralContainers = maskEach(pod.Spec.EphemeralContainers, func(e *v1.EphemeralContainer) {
		c := v1.Container(e.EphemeralContainerCommon)
		maskContainer(&c)
		e.EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	})
	probes, hasProbes := pod.Annotations[declared.Annotation]
	_, hasLast := pod.Annotations[lastApplied]
	if hasProbes || hasLast {
		masked.Annotations = maps.Clone(pod.Annotations)
	}
	if hasProbes {
		masked.Annotations[declared.Annotation] = maskAnnotation(probes)
	}
	if hasLast {
		masked.Annotations[lastApplied] = maskText
	}
	return &masked
}

// maskEach returns a copy of list, with mask applied to its items.
func maskEach[T any](list []T, mask func(*T)) []T {
	list = slices.Clone(list)
	for i := range list {
		mask(&list[i])
	}
	return list
}

// maskCopy returns a copy of *p with mask applied; nil if p is nil.
func maskCopy[T any](p *T, mask func(*T)) *T {
	if p == nil {
		return nil
	}
	masked := *p
	mask(&masked)
	return &masked
}

// maskContainer masks c. It replaces data that c shares with other copies.
func maskContainer(c *v1.Container) {
	c.Env = maskEach(c.Env, func(e *v1.EnvVar) {
		if e.Value != "" {
			e.Value = maskText
		}
	})
	for _, p := range []**v1.Probe{&c.LivenessProbe, &c.ReadinessProbe, &c.StartupProbe} {
		*p = maskCopy(*p, func(p *v1.Probe) { p.HTTPGet = maskCopy(p.HTTPGet, maskRequest) })
	}
	hook := func(h *v1.LifecycleHandler) { h.HTTPGet = maskCopy(h.HTTPGet, maskRequest) }
	c.Lifecycle = maskCopy(c.Lifecycle, func(l *v1.Lifecycle) {
		l.PostStart, l.PreStop = maskCopy(l.PostStart, hook), maskCopy(l.PreStop, hook)
	})
}

func maskRequest(r *v1.HTTPGetAction) {
	r.HTTPHeaders = maskEach(r.HTTPHeaders, func(h *v1.HTTPHeader) {
		if !slices.Contains(publicHeaders, strings.ToLower(h.Name)) {
			h.Value = maskString(h.Value)
		}
	})
}

// maskAnnotation masks the headers and the configs of plugins in the annotation of probes. Comments are
// lost.
func maskAnnotation(text string) string {
	var containers map[string]map[string]map[string]any
	document, err := declared.AnnotationJSON(text)
	if err != nil || json.Unmarshal(document, &containers) != nil {
		return maskText
	}
	for _, kinds := range containers {
		for _, p := range kinds {
			if request, ok := p["httpGet"].(map[string]any); ok {
				maskHeaderList(request)
			}
			if plugin, ok := p["plugin"].(map[string]any); ok && plugin["config"] != nil {
				plugin["config"] = maskValues(plugin["config"])
			}
		}
	}
	out, err := yaml.Marshal(containers)
	if err != nil {
		return maskText
	}
	return string(out)
}

// maskHeaderList masks the headers of a decoded [v1.HTTPGetAction].
func maskHeaderList(request map[string]any) {
	headers, ok := request["httpHeaders"].([]any)
	if !ok {
		delete(request, "httpHeaders")
	}
	for _, h := range headers {
		header, _ := h.(map[string]any)
		name, _ := header["name"].(string)
		if header != nil && !slices.Contains(publicHeaders, strings.ToLower(name)) {
			header["value"] = maskValues(header["value"])
		}
	}
}

// maskValues masks all values of a decoded document, as only the plugin knows which are secret.
func maskValues(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = maskValues(v[key])
		}
		return v
	case []any:
		for i := range v {
			v[i] = maskValues(v[i])
		}
		return v
	case string:
		return maskString(v)
	case nil:
		return nil
	default:
		return maskText
	}
}

// secretReference matches the references that [manager.Config.ResolveSecret] replaces. They are no secrets.
var secretReference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(file|env):[^}]+\}`) })

// maskString masks text except for references to secrets.
func maskString(text string) string {
	var shown strings.Builder
	end := 0
	for _, at := range secretReference().FindAllStringIndex(text, -1) {
		if at[0] > end {
			shown.WriteString(maskText)
		}
		shown.WriteString(text[at[0]:at[1]])
		end = at[1]
	}
	if end < len(text) {
		shown.WriteString(maskText)
	}
	return shown.String()
}
