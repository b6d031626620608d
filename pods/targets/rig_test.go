package targets_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/targets"
)

const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

// rig is a source of targets with a folder for its files.
type rig struct {
	t      testing.TB
	dir    string
	source *targets.Source
	others []*declared.Pod
	check  func(*declared.Pod) []error
}

// newRig returns a rig. text is appended to the head of its prober.yaml.
func newRig(t testing.TB, text string) *rig {
	r := &rig{t: t, dir: t.TempDir(), check: func(*declared.Pod) []error { return nil }}
	r.write("prober.yaml", head+text)
	r.source = targets.New(targets.Config{
		ConfigFile: r.path("prober.yaml"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), PollInterval: time.Millisecond,
	})
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

// generate returns the pods by name, after a refresh of all sources.
func (r *rig) generate() map[string]*declared.Pod {
	r.t.Helper()
	all, err := r.source.Generate(r.t.Context(), true, r.others, r.check)
	if err != nil {
		r.t.Fatal(err)
	}
	byName := make(map[string]*declared.Pod)
	for _, d := range all {
		byName[d.Pod().Name] = d
	}
	return byName
}

// refused returns the error of Generate, without the path of the folder.
func (r *rig) refused() string {
	_, err := r.source.Generate(r.t.Context(), true, r.others, r.check)
	return strings.ReplaceAll(fmt.Sprint(err), r.dir+"/", "")
}

// list returns one line for each target: group, name, state, pod and reason.
func (r *rig) list() (lines []string) {
	for _, t := range r.source.Targets().Items {
		lines = append(lines, strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf("%s %s: %s %s %s", t.Group, t.Name, t.State, t.Pod, t.Reason)), r.dir+"/", ""))
	}
	return lines
}

// run runs the source, and calls Generate when the source requests it, until done returns true.
func (r *rig) run(done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	requests, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		r.source.Run(ctx, func(string) {
			select {
			case requests <- struct{}{}:
			default:
			}
		})
	}()
	for !done() {
		select {
		case <-requests:
			if _, err := r.source.Generate(ctx, false, r.others, r.check); err != nil {
				r.t.Error(err)
			}
		case <-ctx.Done():
			r.t.Fatal("nothing has changed in a minute")
		}
	}
	cancel()
	<-ended
}

// sourceNamed returns the state of a source.
func (r *rig) sourceNamed(name string) pods.TargetSource {
	for _, s := range r.source.Targets().Sources {
		if s.Source == name {
			return s
		}
	}
	return pods.TargetSource{}
}
