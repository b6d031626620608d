package plugins_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// podWith returns a pod with a probe in its annotation.
func podWith(field string) *declared.Pod {
	return declared.Parse(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{declared.Annotation: "c: {readiness: {" + field + "}}"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	})
}

// The error of a plugin is dropped as soon as no manifest refers to the plugin.
func TestHoldsOfManifests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"prober-plugin-demo":      "#!/bin/sh\nexit 1\n",
		"prober-plugin-demo.yaml": "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, plugins.Config{PluginDirs: []string{dir}})
	demo, next, other := podWith("plugin: {name: demo}"), podWith("plugin: {name: demo}"), podWith("tcpSocket: {port: 80}")
	for _, step := range []struct {
		name   string
		checks []*declared.Pod
		runs   []*declared.Pod // nil: the manifests are refused
		held   bool
	}{
		{"a pod names it", []*declared.Pod{demo}, []*declared.Pod{demo}, true},
		{"the same pod", nil, []*declared.Pod{demo}, true},
		{"the same pod after a check", []*declared.Pod{demo}, []*declared.Pod{demo, other}, true},
		{"another pod names it", []*declared.Pod{next}, []*declared.Pod{next, other}, true},
		{"no pod names it", nil, []*declared.Pod{other}, false},
		{"a pod that is refused names it", []*declared.Pod{demo}, nil, true},
		{"pods that are refused next do not", []*declared.Pod{other}, nil, false},
		{"the first pod again", nil, []*declared.Pod{demo}, true},
		{"no pod", nil, []*declared.Pod{}, false},
	} {
		if _, err := s.PrepareWithin(t.Context(), "demo", nil, probe.Target{}); err == nil {
			t.Fatalf("%s: the plugin runs", step.name)
		}
		s.BeginCheck()
		for _, pod := range step.checks {
			s.HoldChecked(pod)
		}
		if step.runs == nil {
			s.HoldRefused()
		} else {
			s.HoldApplied(step.runs)
		}
		if dropped := s.UnloadUnused(time.Now()); dropped == step.held {
			t.Errorf("%s: the error was dropped: %v", step.name, dropped)
		}
	}
}
