package secrets_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
)

// A file is watched as long as a pod refers to it.
func TestFilesKeep(t *testing.T) {
	dir := folders(t, []string{"a", "b"}, nil)
	pod := func(config string) *declared.Pod {
		return declared.Parse(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				declared.Annotation: fmt.Sprintf("c: {readiness: {plugin: {name: demo, config: {key: %q}}}}", config),
			}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
		})
	}
	a, b, next, other := pod("${file:"+dir+"/a}"), pod("${file:"+dir+"/b}"), pod("${file:"+dir+"/a}"), pod("no reference")
	var file config.Agent
	file.Secrets.Allow = []string{"file:" + dir + "/*"}
	policy, files := secrets.PolicyOf("/etc/prober.yaml", &file), new(secrets.Files)
	for i, step := range []struct {
		pods []*declared.Pod
		want string // watched files
	}{
		{[]*declared.Pod{a, b, other}, "ab"},
		{[]*declared.Pod{a, b, other}, "ab"},
		{[]*declared.Pod{a, other}, "a"},
		{[]*declared.Pod{next, b}, "ab"},
		{[]*declared.Pod{next, other}, "a"},
		{[]*declared.Pod{other}, ""},
		{[]*declared.Pod{a, b}, "ab"},
		{nil, ""},
	} {
		for _, name := range []string{"a", "b"} {
			if _, err := policy.Resolve(nil, files, "file", dir+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
		files.Keep(step.pods)
		known, _ := files.Stamps()
		var got strings.Builder
		for _, name := range []string{"a", "b"} {
			if strings.Contains(known, dir+"/"+name) {
				got.WriteString(name)
			}
		}
		if got.String() != step.want {
			t.Errorf("step %d: %q is watched, want %q", i, got.String(), step.want)
		}
	}
}
