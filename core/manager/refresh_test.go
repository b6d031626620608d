package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// rotation is a pod whose probe succeeds only with the password "good".
type rotation struct {
	*rig
	pod      *v1.Pod
	password string // "": it cannot be resolved
	asked    int    // number of resolutions of the password
	refuses  string // a password that Prepare refuses
	released []string

	mu        sync.Mutex // guards the fields below
	passwords []string
	count     int // number of attempts, kept by the handler
}

// attempts returns the number of attempts that the handler has kept, and the total number of attempts.
func (r *rotation) attempts() (kept, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, len(r.passwords)
}

type releasing struct {
	probe.Handler
	done  func()
	count *int // of the attempts of the probe
}

func (r *releasing) Inherit(from probe.Handler) { r.count = from.(*releasing).count }

func (r *releasing) Release() { r.done() }

func (r *rotation) Prepare(_ string, config []byte, _ probe.Target) (probe.Handler, error) {
	password := strings.Split(string(config), `"`)[3]
	if password == r.refuses {
		return nil, fmt.Errorf("the password %s is refused", password)
	}
	h := &releasing{count: new(int), done: func() { r.released = append(r.released, password) }}
	h.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*h.count++
		r.count = *h.count
		r.passwords = append(r.passwords, password)
		if password != "good" {
			return probe.Outcome{Result: probe.Failure, Output: "denied: " + password}, nil
		}
		return probe.Outcome{Result: probe.Success}, nil
	})
	return h, nil
}

func newRotation(t *testing.T, spec string) *rotation {
	r := &rotation{password: "good"}
	r.rig = newRig(t, func(cfg *manager.Config) {
		cfg.Handlers = r
		cfg.ResolveSecret = func(string, string) (string, error) {
			if r.asked++; r.password == "" {
				return "", errors.New("permission denied")
			}
			return r.password, nil
		}
	})
	r.pod = annotated(`web: {readiness: {plugin: {name: x, config: {password: "${file:/run/pw}"}}, ` + spec + `}}`)
	r.store.SetPodStatus(r.pod, statusOf(running("web", "c1")))
	r.add(r.pod)
	return r
}

func TestRefreshSecrets(t *testing.T) {
	bubble(t, "next tick uses a new secret, and the run continues", func(t *testing.T) {
		r := newRotation(t, "period: 1s, failureThreshold: 3")
		r.wait(2 * time.Second)
		r.password = "bad"
		r.refresh(t, "")
		r.wait(2 * time.Second) // two failures of three
		r.wantCached(probe.Readiness, "c1", results.Success)
		r.password = "bad2"
		r.refresh(t, "")
		r.wait(time.Second) // the third
		r.wantCached(probe.Readiness, "c1", results.Failure)
		if !slices.Equal(r.released, []string{"good", "bad"}) {
			t.Errorf("released %q", r.released)
		}
		r.password = "good"
		r.refresh(t, "")
		r.wait(time.Second)
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "handler keeps its state when the secret changes", func(t *testing.T) {
		r := newRotation(t, "period: 1s")
		for i, password := range []string{"other", "third"} {
			r.wait(3500 * time.Millisecond)
			before, _ := r.attempts()
			r.password = password
			r.refresh(t, "")
			r.wait(1500 * time.Millisecond)
			if kept, all := r.attempts(); before == 0 || kept <= before || kept != all {
				t.Errorf("%d: kept %d, then %d of %d attempts", i, before, kept, all)
			}
		}
	})
	bubble(t, "same secret changes nothing, and no tick reads it", func(t *testing.T) {
		r := newRotation(t, "period: 1s")
		r.wait(5 * time.Second)
		if r.asked != 1 {
			t.Errorf("asked %d times", r.asked)
		}
		r.refresh(t, "")
		if r.asked != 2 || len(r.released) > 0 {
			t.Errorf("asked %d times, released %q", r.asked, r.released)
		}
	})
	bubble(t, "probe keeps the last secret when the new one cannot be read", func(t *testing.T) {
		r := newRotation(t, "period: 1s")
		r.password = ""
		r.refresh(t, "pod ns/pod-uid: metadata.annotations[prober.dev/probes][web].readiness: ${file:/run/pw}: permission denied")
		r.wait(1500 * time.Millisecond)
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "probe keeps the last secret when the handler refuses the new one, which is redacted", func(t *testing.T) {
		r := newRotation(t, "period: 1s")
		r.password, r.refuses = "ugly", "ugly"
		r.refresh(t, "pod ns/pod-uid: metadata.annotations[prober.dev/probes][web].readiness: the password [redacted] is refused")
		r.wait(1500 * time.Millisecond)
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "UpdatePod resolves the secret again", func(t *testing.T) {
		r := newRotation(t, "period: 10s")
		r.wait(time.Second)
		r.password = "new"
		r.pod.Annotations[declared.Annotation] = strings.Replace(r.pod.Annotations[declared.Annotation], "10s", "1s", 1)
		r.update(r.pod)
		r.wait(15 * time.Second)
		if got := r.passwords[len(r.passwords)-1]; got != "new" {
			t.Errorf("probed with %q", got)
		}
	})
}

// refresh refreshes the secrets, and checks the error.
func (r *rotation) refresh(t *testing.T, want string) {
	t.Helper()
	got := ""
	if err := r.m.RefreshSecrets(t.Context()); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("RefreshSecrets = %q, want %q", got, want)
	}
}

func TestSecretReferences(t *testing.T) {
	pod := annotated(`web: {readiness: {plugin: {name: x, config: {a: "${file:/run/\"a\"} ${env:B}", b: ["${env:B}"], c: "$x"}}}, ` +
		`liveness: {plugin: {name: x, config: {}}}}`)
	configs, errs := declared.ProbesOf(pod)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []string
	for _, c := range configs {
		for _, ref := range c.SecretReferences() {
			all = append(all, ref.Source+":"+ref.Name)
		}
	}
	slices.Sort(all)
	if want := []string{"env:B", `file:/run/"a"`}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}
