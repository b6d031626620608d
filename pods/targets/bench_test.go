package targets_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/pods/targets"
)

// manyTargets returns a list of n targets. The addresses of the first changed targets differ.
func manyTargets(n, changed int) string {
	var list []any
	for i := range n {
		at := i
		if i < changed {
			at += 100_000
		}
		list = append(list, map[string]any{
			"targets": []string{fmt.Sprintf("10.%d.%d.%d:8080", at/62500, at/250%250, at%250+1)},
			"labels":  map[string]string{"env": "prod", "instance": fmt.Sprintf("i-%d", at), "rack": fmt.Sprintf("r%d", at%50)},
		})
	}
	text, _ := json.Marshal(list)
	return string(text)
}

// benchmarkGroups has groups by the handler of their probe. The config of secret refers to a secret.
var benchmarkGroups = map[string]string{
	"http":   "targets: [{name: web, probe: {httpGet: {path: /healthz}, period: 1h}, file: [t.json]}]\n",
	"secret": "targets: [{name: web, probe: {httpGet: {path: '/${env:HOME}'}, period: 1h}, file: [t.json]}]\n",
}

// BenchmarkTargets measures n=10000 targets in one file: their load by a source and a manager with the
// handlers of an agent, and a reload after changed=1000 of them have changed.
func BenchmarkTargets(b *testing.B) {
	const n = 10_000
	for name, text := range benchmarkGroups {
		b.Run(fmt.Sprintf("n=%d/probe=%s/load", n, name), func(b *testing.B) {
			r := newRig(b, text)
			r.write("t.json", manyTargets(n, 0))
			for b.Loop() {
				_, stop := r.start(b)
				b.StopTimer()
				stop()
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("n=%d/probe=%s/changed=1000", n, name), func(b *testing.B) {
			r := newRig(b, text)
			lists := [...]string{manyTargets(n, 0), manyTargets(n, n/10)}
			r.write("t.json", lists[0])
			source, stop := r.start(b)
			for i := 1; b.Loop(); i++ {
				r.write("t.json", lists[i%2])
				if err := source.Reload(b.Context(), pods.Reload{All: true}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			stop()
		})
	}
}

// BenchmarkGenerate generates the pods of n=10000 targets again, after changed=N have changed.
func BenchmarkGenerate(b *testing.B) {
	const n = 10_000
	for _, changed := range []int{0, n / 10} {
		b.Run(fmt.Sprintf("n=%d/changed=%d", n, changed), func(b *testing.B) {
			r := newRig(b, benchmarkGroups["http"])
			lists := [...]string{manyTargets(n, 0), manyTargets(n, changed)}
			r.write("t.json", lists[0])
			r.generate()
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				if changed > 0 {
					r.write("t.json", lists[i%2])
				}
				if all, err := r.source.Generate(b.Context(), true, nil, r.check); err != nil || len(all) != n {
					b.Fatal(len(all), err)
				}
			}
		})
	}
}

// start starts a pod source with the targets of r, and returns when they are applied.
func (r *rig) start(b *testing.B) (*local.PodSource, func()) {
	b.Helper()
	applied := make(chan error, 1)
	host := pods.Host{
		Logger: slog.New(slog.DiscardHandler), Output: io.Discard, PollInterval: time.Hour, Begin: func() {},
		Check:         func(context.Context, *declared.Pod) []error { return nil },
		Refused:       func(_ context.Context, _ pods.Reload, err error) error { return err },
		RequestReload: func(string) {}, Restarted: func(pods.Restart) {}, RunsPrograms: func(string) bool { return false },
		Applied: func(_ context.Context, p pods.Reload, _ []*declared.Pod, err error) error {
			if p.Cause == "start" {
				applied <- err
			}
			return err
		},
	}
	generator := targets.New(targets.Config{ConfigFile: r.path("prober.yaml"), Logger: host.Logger, PollInterval: time.Hour})
	source, err := local.NewPodSource(b.Context(), &manifest.Source{}, local.Config{Generator: generator}, host)
	if err != nil {
		b.Fatal(err)
	}
	registry := &handlers.Registry{}
	if err := builtin.Register(registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		b.Fatal(err)
	}
	m, err := manager.New(manager.Config{
		Status: source, Handlers: registry, RestartGrace: local.RestartGrace,
		ResolveSecret: func(_, name string) (string, error) { return name, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	source.Start(b.Context(), m)
	if err := <-applied; err != nil {
		b.Fatal(err)
	}
	return source, func() {
		if err := errors.Join(source.Stop(context.Background()), m.Close()); err != nil {
			b.Fatal(err)
		}
	}
}
