package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
)

// A reload must not leave a second copy of the pods in memory.
func TestReloadKeepsUnchangedPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, path string) {
		text := strings.NewReplacer("NAME", name, "PATH", path).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - name: c
    readinessProbe: {httpGet: {path: PATH, port: 80}}
`)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("same", "/")
	write("changed", "/")
	source, applied := startSource(t, dir)
	before := byName(applied())
	write("changed", "/other")
	if err := source.Reload(t.Context(), pods.Reload{All: true}); err != nil {
		t.Fatal(err)
	}
	after := byName(applied())
	if before["same"] != after["same"] {
		t.Error("the unchanged pod was copied")
	}
	if path := after["changed"].Spec.Containers[0].ReadinessProbe.HTTPGet.Path; path != "/other" {
		t.Errorf("the changed pod has the path %q", path)
	}
}

// startSource runs the pods of the manifests in dir until the test ends. They change only by a
// call of Reload. applied returns the pods that were applied last.
func startSource(t testing.TB, dir string) (source *local.PodSource, applied func() []*v1.Pod) {
	var last []*v1.Pod // from the last call of Applied; startSource waits for the first call, and Reload makes the others
	started := make(chan error, 1)
	host := testHost()
	host.PollInterval = time.Hour
	host.Begin = func() {}
	host.Check = func(context.Context, *declared.Pod) []error { return nil }
	host.Applied = func(_ context.Context, r pods.Reload, pods []*declared.Pod, err error) error {
		last = nil
		for _, d := range pods {
			last = append(last, d.Pod())
		}
		if r.Cause == "start" {
			started <- err
		}
		return err
	}
	source, err := local.NewPodSource(t.Context(), &manifest.Source{Paths: []string{dir}}, local.Config{}, host)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manager.New(manager.Config{Status: source, Handlers: succeed{}, RestartGrace: local.RestartGrace})
	if err != nil {
		t.Fatal(err)
	}
	source.Start(t.Context(), m)
	t.Cleanup(func() {
		if err := errors.Join(source.Stop(context.Background()), m.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return source, func() []*v1.Pod { return last }
}

func byName(list []*v1.Pod) map[string]*v1.Pod {
	all := make(map[string]*v1.Pod)
	for _, pod := range list {
		all[pod.Name] = pod
	}
	return all
}
