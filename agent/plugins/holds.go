package plugins

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// holds keep the plugins that manifests name from being unloaded. Each field has functions
// that release them.
type holds struct {
	mu      sync.Mutex
	checked []func()             // of the manifests that are being checked
	refused []func()             // of the manifests that were refused last
	applied []func()             // of the pods that run
	named   map[*v1.Pod][]string // the handlers of each pod that runs
}

func release(holds ...func()) {
	for _, end := range holds {
		end()
	}
}

// BeginCheck begins a check of manifests. Plugins that did not answer are asked again.
func (s *Set) BeginCheck() {
	s.live.AskAgain()
	h := &s.holds
	h.mu.Lock()
	ended := h.checked
	h.checked = nil
	h.mu.Unlock()
	release(ended...)
}

// HoldChecked holds the plugins of a pod that is being checked.
func (s *Set) HoldChecked(pod *v1.Pod) {
	h := &s.holds
	names := h.handlersOf(pod)
	if len(names) == 0 {
		return
	}
	hold := s.live.Hold(names...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked = append(h.checked, hold)
}

// HoldRefused records that the checked manifests were refused. It holds their plugins until the
// next result: the manifests may have been refused because of a plugin.
func (s *Set) HoldRefused() {
	h := &s.holds
	h.mu.Lock()
	ended := h.refused
	h.refused, h.checked = h.checked, nil
	h.mu.Unlock()
	release(ended...)
}

// HoldApplied holds the plugins of the pods that run, and releases all others. The pods must not be
// modified later.
func (s *Set) HoldApplied(pods []*v1.Pod) {
	h := &s.holds
	all, named := make(map[string]bool), make(map[*v1.Pod][]string)
	for _, pod := range pods {
		names := h.handlersOf(pod)
		if len(names) > 0 {
			named[pod] = names
		}
		for _, name := range names {
			all[name] = true
		}
	}
	hold := s.live.Hold(slices.Sorted(maps.Keys(all))...)
	h.mu.Lock()
	ended := slices.Concat(h.applied, h.refused, h.checked)
	h.applied, h.refused, h.checked, h.named = []func(){hold}, nil, nil, named
	h.mu.Unlock()
	release(ended...)
}

// handlersOf returns the names of the handlers that the annotation of a pod names, each once. The
// probes of its containers have built-in ones.
func (h *holds) handlersOf(pod *v1.Pod) (names []string) {
	if pod.Annotations[manager.Annotation] == "" {
		return nil
	}
	h.mu.Lock()
	names, runs := h.named[pod]
	h.mu.Unlock()
	if runs {
		return names
	}
	configs, _ := manager.ProbesOf(pod) // probes with errors are never prepared
	for _, c := range configs {
		if !slices.Contains(names, c.Handler) {
			names = append(names, c.Handler)
		}
	}
	return names
}
