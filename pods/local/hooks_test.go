package local_test

import (
	"encoding/json"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/internal/hook/hooktest"
)

func TestHookRedirects(t *testing.T) {
	hooktest.Redirects(t, func(t *testing.T, h v1.LifecycleHandler) (failed bool) {
		w := newWorld(t)
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		w.apply(t, pod(`
  containers:
  - {name: a, command: [sleep, "1000"], lifecycle: {preStop: HOOK}}
`), "HOOK", string(text))
		w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") })
		w.stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.events, "pod FailedPreStopHook PreStopHook failed")
	})
}
