package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

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
	applied := make(chan []*v1.Pod, 1)
	host := testHost()
	host.PollInterval = time.Hour
	host.Begin = func() {}
	host.Check = func(context.Context, *v1.Pod) []error { return nil }
	host.Applied = func(_ context.Context, _ pods.Reload, pods []*v1.Pod, err error) error {
		applied <- pods
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
	before := byName(<-applied)
	write("changed", "/other")
	if err := source.Reload(t.Context(), pods.Reload{All: true}); err != nil {
		t.Fatal(err)
	}
	after := byName(<-applied)
	if before["same"] != after["same"] {
		t.Error("the unchanged pod was copied")
	}
	if path := after["changed"].Spec.Containers[0].ReadinessProbe.HTTPGet.Path; path != "/other" {
		t.Errorf("the changed pod has the path %q", path)
	}
	if err := source.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func byName(list []*v1.Pod) map[string]*v1.Pod {
	all := make(map[string]*v1.Pod)
	for _, pod := range list {
		all[pod.Name] = pod
	}
	return all
}
