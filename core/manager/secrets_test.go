package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

var secretValues = map[string]string{"file:/run/pw": "hunter2\n", "env:TOKEN": "hunter2-token", "env:EMPTY": "", "env:QUOTED": `back\slash "and" <quotes>`}

var errNoSecret = errors.New("no such secret")

func resolveSecrets(cfg *manager.Config) {
	cfg.ResolveSecret = func(source, name string) (string, error) {
		value, ok := secretValues[source+":"+name]
		if !ok {
			return "", errNoSecret
		}
		return value, nil
	}
}

// secretRig is a rig with one pod, whose probes are bound by prepare.
type secretRig struct {
	*rig
	pod   *v1.Pod
	ticks []worker.Tick
	log   bytes.Buffer
}

type bind func(config []byte) (probe.Handler, error)

func (b bind) Prepare(_ string, config []byte, _ probe.Target) (probe.Handler, error) {
	return b(config)
}

func newSecretRig(t *testing.T, config string, prepare bind) *secretRig {
	r := &secretRig{}
	observe := observerFunc(func(t *worker.Tick) { r.ticks = append(r.ticks, *t) })
	r.rig = newRig(t, resolveSecrets, func(cfg *manager.Config) {
		cfg.Handlers, cfg.Observers, cfg.History = prepare, []worker.Observer{observe}, 1<<20
		cfg.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	})
	r.pod = annotated("web: {readiness: {plugin: {name: x, config: " + config + "}, period: 1s}}")
	r.store.SetPodStatus(r.pod, statusOf(running("web", "c1")))
	return r
}

// observerFunc is an observer function that gets all ticks.
type observerFunc func(*worker.Tick)

func (f observerFunc) Observe(worker.Info) worker.ProbeObserver { return f }
func (f observerFunc) Tick(t *worker.Tick)                      { f(t) }
func (f observerFunc) Skipped(worker.SkipReason, int)           {}
func (f observerFunc) Close()                                   {}

// holder is a handler that reports secrets in its config, and whose output is the first of them.
type holder struct {
	secrets []string
	keep    func(redact func(string) string)
}

func (h holder) Secrets() []string                     { return h.secrets }
func (h holder) KeepSecret(redact func(string) string) { h.keep(redact) }

func (h holder) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Failure, Output: h.secrets[0] + " is wrong"}, nil
}

const twoSecrets = `{password: "${file:/run/pw}", list: ["Bearer ${env:TOKEN}", 12345678901234567890], plain: $x}`

func TestSecrets(t *testing.T) {
	bubble(t, "references are resolved before Prepare", func(t *testing.T) {
		var got string
		r := newSecretRig(t, twoSecrets, func(config []byte) (probe.Handler, error) {
			got = string(config)
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, nil }), nil
		})
		r.add(r.pod)
		if want := `{"list":["Bearer hunter2-token",12345678901234567890],"password":"hunter2\n","plain":"$x"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	bubble(t, "handler can redact its log", func(t *testing.T) {
		var got string
		r := newSecretRig(t, twoSecrets, func([]byte) (probe.Handler, error) {
			return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				got = req.Redacted("hunter2 and others")
				return probe.Outcome{}, nil
			}), nil
		})
		r.add(r.pod)
		if want := "[redacted] and others"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if none := new(probe.Request).Redacted("as it is"); none != "as it is" {
			t.Errorf("without secrets: %q", none)
		}
	})
	bubble(t, "handler finds secrets in its config", func(t *testing.T) {
		var kept string
		r := newSecretRig(t, `{password: hunter2}`, func([]byte) (probe.Handler, error) {
			return holder{secrets: []string{"hunter2"}, keep: func(redact func(string) string) { kept = redact("hunter2!") }}, nil
		})
		r.add(r.pod)
		r.wait(time.Second)
		if len(r.ticks) == 0 || r.ticks[0].Outcome.Output != "[redacted] is wrong" || kept != "[redacted]!" {
			t.Errorf("kept %q, ticks %+v", kept, r.ticks)
		}
	})
	bubble(t, "outcome, events and traces are redacted", func(t *testing.T) {
		labels := map[string]string{"user": "hunter2"}
		calls := 0
		r := newSecretRig(t, twoSecrets, func([]byte) (probe.Handler, error) {
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				calls++
				out := probe.Outcome{
					Result: probe.Failure, Output: "login with <hunter2> and <hunter2-token> failed: hunter2",
					Details: `{"password": "hunter2", "h\u0075nter2-token": ["<h\u0075nter2>", 12345678901234567890]}`,
					Metrics: []probe.Metric{{Name: "n", Value: 1, Unit: "hunter2", Labels: labels}},
				}
				switch calls {
				case 1:
					return out, nil
				case 2, 3, 4:
					return out, fmt.Errorf("dial hunter2-token: %w", errNoSecret)
				default:
					panic("hunter2")
				}
			}), nil
		})
		r.add(r.pod)
		r.wait(3 * time.Second)
		r.m.Close() // no goroutine writes to the log after this
		if calls < 5 {
			t.Fatalf("%d calls", calls)
		}
		var all strings.Builder
		all.WriteString(fmt.Sprint(r.sent(), r.log.String()))
		for _, tick := range r.ticks {
			all.WriteString(fmt.Sprint(tick.Outcome, tick.Err))
		}
		if strings.Contains(all.String(), "hunter2") || !strings.Contains(all.String(), "[redacted]") {
			t.Errorf("seen: %s", all.String())
		}
		if got, want := r.ticks[0].Outcome.Output, "login with <[redacted]> and <[redacted]> failed: [redacted]"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		details := `{"[redacted]":["\u003c[redacted]\u003e",12345678901234567890],"password":"[redacted]"}`
		if got := r.ticks[0].Outcome.Details; got != details {
			t.Errorf("details %q, want %q", got, details)
		}
		if !errors.Is(r.ticks[1].Err, errNoSecret) {
			t.Errorf("the error lost what it wraps: %v", r.ticks[1].Err)
		}
		if labels["user"] != "hunter2" {
			t.Error("the handler's own map was changed")
		}
		if !strings.Contains(r.log.String(), "probe panicked") {
			t.Errorf("log: %s", r.log.String())
		}
	})
}

func TestSecretsAreNotShown(t *testing.T) {
	bubble(t, "status is redacted", func(t *testing.T) {
		r := newSecretRig(t, twoSecrets, func([]byte) (probe.Handler, error) {
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				return probe.Outcome{Result: probe.Failure, Output: "hunter2"}, errors.New("hunter2")
			}), nil
		})
		r.add(r.pod)
		r.wait(2 * time.Second)
		shown, err := json.Marshal(r.m.Probes())
		if err != nil || bytes.Contains(shown, []byte("hunter2")) || !bytes.Contains(shown, []byte("[redacted]")) {
			t.Errorf("%s, %v", shown, err)
		}
	})
	bubble(t, "JSON in a string of details is redacted", func(t *testing.T) {
		r := newSecretRig(t, `{password: "${env:QUOTED}"}`, func(config []byte) (probe.Handler, error) {
			details, err := json.Marshal(map[string]any{"config": string(config), "said": []string{fmt.Sprintf("%q is wrong", secretValues["env:QUOTED"])}})
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				return probe.Outcome{Result: probe.Failure, Details: string(details)}, nil
			}), err
		})
		r.add(r.pod)
		if got, want := r.ticks[0].Outcome.Details, `{"config":"{\"password\":\"[redacted]\"}","said":["\"[redacted]\" is wrong"]}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	bubble(t, "error of a refused config is redacted", func(t *testing.T) {
		r := newSecretRig(t, twoSecrets, func(config []byte) (probe.Handler, error) {
			return nil, fmt.Errorf("bad config %s", config)
		})
		err := r.m.AddPod(t.Context(), r.pod)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), at+"[web].readiness") {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "error of a secret that cannot be resolved names reference and field", func(t *testing.T) {
		r := newSecretRig(t, `{password: "${file:/run/none}"}`, nil)
		err := r.m.AddPod(t.Context(), r.pod)
		if !errors.Is(err, errNoSecret) || !strings.Contains(err.Error(), "${file:/run/none}") || !strings.Contains(err.Error(), at+"[web].readiness") {
			t.Errorf("got %v", err)
		}
		r.wantKeys()
	})
	bubble(t, "empty secret redacts nothing", func(t *testing.T) {
		r := newSecretRig(t, `{password: "${env:EMPTY}"}`, func([]byte) (probe.Handler, error) {
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				return probe.Outcome{Result: probe.Failure, Output: "as it is"}, nil
			}), nil
		})
		r.add(r.pod)
		if got := r.ticks[0].Outcome.Output; got != "as it is" {
			t.Errorf("output %q", got)
		}
	})
	bubble(t, "reference without ResolveSecret is an error", func(t *testing.T) {
		r := newRig(t)
		err := r.m.AddPod(t.Context(), annotated(`web: {readiness: {plugin: {name: x, config: {password: "${env:A}"}}}}`))
		if err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	})
	bubble(t, "probe of a container has no references", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("web", probe.Liveness))
		pod.Spec.Containers[0].LivenessProbe = execProbe("sh", "-c", "test ${env:A}")
		r.add(pod)
		if got := r.preparations()[0].config; got != `{"command":["sh","-c","test ${env:A}"]}` {
			t.Errorf("config %s", got)
		}
	})
}
