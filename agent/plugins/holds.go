package plugins

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// holds are the holds on the plugins that manifests name, so that these are not unloaded.
type holds struct {
	mu      sync.Mutex
	checked []func()                    // release those of the manifests that are being checked
	refused []func()                    // of the manifests that were refused last
	applied []func()                    // of the pods that run
	byPod   map[*v1.Pod]map[string]bool // the handlers of the pods that run
}

func release(holds []func()) {
	for _, end := range holds {
		end()
	}
}

// BeginCheck begins a check of manifests. Plugins that did not answer are asked again.
func (s *Set) BeginCheck() {
	s.live.AskAgain()
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	release(h.checked)
	h.checked = nil
}

// HoldChecked holds the plugins of a pod that is being checked.
func (s *Set) HoldChecked(pod *v1.Pod) {
	hold := s.live.Hold(handlersOf(pod)...)
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked = append(h.checked, hold)
}

// HoldRefused notes that the manifests were refused. Their plugins are held until other
// manifests are: a plugin may be what they were refused for.
func (s *Set) HoldRefused() {
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	release(h.refused)
	h.refused, h.checked = h.checked, nil
}

// HoldApplied notes the pods that run, and ends all other holds. A pod is read-only, and is read
// once.
func (s *Set) HoldApplied(pods []*v1.Pod) {
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	byPod, all := make(map[*v1.Pod]map[string]bool, len(pods)), make(map[string]bool)
	for _, pod := range pods {
		names := h.byPod[pod]
		if names == nil {
			names = make(map[string]bool)
			for _, name := range handlersOf(pod) {
				names[name] = true
			}
		}
		byPod[pod] = names
		maps.Copy(all, names)
	}
	hold := s.live.Hold(slices.Collect(maps.Keys(all))...)
	release(slices.Concat(h.applied, h.refused, h.checked))
	h.applied, h.refused, h.checked, h.byPod = []func(){hold}, nil, nil, byPod
}

// handlersOf returns the names of the handlers of a pod's probes.
func handlersOf(pod *v1.Pod) (names []string) {
	configs, _ := manager.ProbesOf(pod) // those with errors are never prepared
	for _, c := range configs {
		names = append(names, c.Handler)
	}
	return names
}
