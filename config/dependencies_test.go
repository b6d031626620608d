package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
)

// groupsOf returns a prober.yaml with a target group on each line, from line 4 on. Each word is "NAME" or
// "NAME:DEPENDENCY,…".
func groupsOf(words string) string {
	text := targetsHead + "targets:\n"
	for word := range strings.FieldsSeq(words) {
		name, on, _ := strings.Cut(word, ":")
		text += fmt.Sprintf("- {name: %s, probe: {tcpSocket: {port: 1}}, static: [h], dependsOn: [%s]}\n", name, on)
	}
	return text
}

func TestDependencies(t *testing.T) {
	a, err := config.Parse("prober.yaml", []byte(groupsOf("web:db,queue db:disk queue:disk disk")))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"web": {"db", "queue"}, "db": {"disk"}, "queue": {"disk"}}
	if diff := cmp.Diff(want, a.Dependencies()); diff != "" {
		t.Error(diff)
	}
}

func TestBadDependencies(t *testing.T) {
	for _, c := range []struct {
		groups string
		want   string
	}{
		{"web:dbs db", `prober.yaml:4: targets[0].dependsOn[0]: unknown name "dbs"; known: db, web (did you mean "db"?)`},
		{"web:db,db db", `prober.yaml:4: targets[0].dependsOn[1]: "db" is set twice, first at targets[0].dependsOn[0]`},
		{"web:''", "prober.yaml:4: targets[0].dependsOn[0]: must not be empty"},
		{"web:{}", "prober.yaml:4: targets[0].dependsOn[0]: must be a string, not a mapping"},
		{"web:web", "prober.yaml:4: targets[0].dependsOn[0]: a cycle: web -> web"},
		{"a:b b:a", "prober.yaml:4: targets[0].dependsOn[0]: a cycle: a -> b -> a"},
		{"d a:d,b b:c c:b", "prober.yaml:6: targets[2].dependsOn[0]: a cycle: b -> c -> b"},
		{"a:b b:d,c c:a d", "prober.yaml:4: targets[0].dependsOn[0]: a cycle: a -> b -> c -> a"},
		{"a:a b:c c:b", "prober.yaml:4: targets[0].dependsOn[0]: a cycle: a -> a\nprober.yaml:5: targets[1].dependsOn[0]: a cycle: b -> c -> b"},
		{"a:b,x b:a", "prober.yaml:4: targets[0].dependsOn[1]: unknown name \"x\"; known: a, b\nprober.yaml:4: targets[0].dependsOn[0]: a cycle: a -> b -> a"},
	} {
		_, err := config.Parse("prober.yaml", []byte(groupsOf(c.groups)))
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.groups, got, c.want)
		}
	}
}
