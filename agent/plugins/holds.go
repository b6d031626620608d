package plugins

import (
	"maps"
	"slices"
	"sync"

	"github.com/daeace23/prober/core/declared"
)

// holds keeps the plugins that manifests refer to loaded. Each field has functions that release holds.
type holds struct {
	mu      sync.Mutex
	checked []func() // manifests that are being checked
	refused []func() // manifests that were refused last
	applied []func() // running pods
}

func release(holds ...func()) {
	for _, end := range holds {
		end()
	}
}

// BeginCheck begins a check of manifests. Plugins that did not respond before are tried again.
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
func (s *Set) HoldChecked(pod *declared.Pod) {
	h := &s.holds
	names := handlersOf(pod)
	if len(names) == 0 {
		return
	}
	hold := s.live.Hold(names...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked = append(h.checked, hold)
}

// HoldRefused records that the checked manifests were refused. It holds their plugins until the next result,
// as a plugin may be the reason.
func (s *Set) HoldRefused() {
	h := &s.holds
	h.mu.Lock()
	ended := h.refused
	h.refused, h.checked = h.checked, nil
	h.mu.Unlock()
	release(ended...)
}

// HoldApplied holds the plugins of the running pods, and releases all other holds.
func (s *Set) HoldApplied(pods []*declared.Pod) {
	h := &s.holds
	all := make(map[string]bool)
	for _, pod := range pods {
		for _, name := range handlersOf(pod) {
			all[name] = true
		}
	}
	hold := s.live.Hold(slices.Sorted(maps.Keys(all))...)
	h.mu.Lock()
	ended := slices.Concat(h.applied, h.refused, h.checked)
	h.applied, h.refused, h.checked = []func(){hold}, nil, nil
	h.mu.Unlock()
	release(ended...)
}

// handlersOf returns the distinct handler names of a pod's probes. It returns none if all probes are fields
// of containers, which only use built-in handlers.
func handlersOf(pod *declared.Pod) (names []string) {
	if pod.Plain() {
		return nil
	}
	for _, c := range pod.Probes() { // without probes that have errors, which are never prepared
		if !slices.Contains(names, c.Handler) {
			names = append(names, c.Handler)
		}
	}
	return names
}
