package docstest_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
)

// The tables of the core and of the handlers have the same names.
func TestBuiltinTablesAgree(t *testing.T) {
	atRoot(t)
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range declared.Builtins() {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	if got := registry.Names(); !slices.Equal(got, names) {
		t.Errorf("handlers/builtin registers %q, core/declared has %q", got, names)
	}
}

// fifth is a program that finds the handler that CONTRIBUTING.md adds everywhere: in the annotation, in the
// registry, among the handlers whose hosts a policy sees, and in an agent's command.
const fifth = `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

func main() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", Annotations: map[string]string{declared.Annotation: "c: {readiness: {banner: " + os.Args[1] + ", period: 1s}}"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", ContainerID: "x://1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
		}}},
	}
	probes := declared.Parse(pod)
	for _, err := range probes.Errors() {
		fmt.Println("error", err)
	}
	for _, c := range probes.Probes() {
		place, path, ok := c.Place()
		fmt.Println("probe", c.Handler, place.Host, place.Port.String() != "", path, ok, declared.IsBuiltin(c.Handler))
	}
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		panic(err)
	}
	var store manager.StatusStore
	m, err := manager.New(manager.Config{Status: &store, Handlers: &registry})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	m.UpdatePodStatus(pod, &pod.Status)
	store.SetPodStatus(pod, pod.Status)
	if err := m.Apply(context.Background(), probes); err != nil {
		fmt.Println("apply", err)
		return
	}
	_ = m.Trigger(manager.Key{PodUID: "u", Container: "c", Kind: probe.Readiness})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for u := range m.Subscribe(ctx) {
		if u.Output != "" {
			fmt.Println(u.Result, u.Output)
			return
		}
	}
}
`

// TestFifthBuiltinHandler adds the handler that CONTRIBUTING.md describes: a folder and its rows.
func TestFifthBuiltinHandler(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "**A built-in handler**")
	var blocks []string
	for range 4 {
		_, rest, _ := strings.Cut(section, "```go\n")
		block, rest, ok := strings.Cut(rest, "```\n")
		if !ok {
			t.Fatal("CONTRIBUTING.md has fewer blocks than a handler has parts")
		}
		blocks, section = append(blocks, block), rest
	}
	dir := t.TempDir()
	overlay := map[string]string{}
	put := func(path, text string) {
		t.Helper()
		real := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(real, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		overlay[at] = real
	}
	edit := func(path, before, insert string) string {
		t.Helper()
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(source), before) != 1 {
			t.Fatalf("%s has no place for %q", path, before)
		}
		return strings.Replace(string(source), before, insert+before, 1)
	}
	put("handlers/builtin/bannerprobe/banner.go", blocks[0])
	table := edit("handlers/builtin/builtin.go", "}\n\n// Register adds", blocks[1])
	put("handlers/builtin/builtin.go", strings.Replace(table, "import (\n", "import (\n\t\"github.com/daeace23/prober/handlers/builtin/bannerprobe\"\n", 1))
	put("core/declared/builtin.go", edit("core/declared/builtin.go", "}\n\n// orNil returns", blocks[2])+"\n"+blocks[3])
	put("internal/fifth/main.go", fifth)
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 ready\r\n"))
			_ = conn.Close()
		}
	})
	defer serving.Wait()
	defer l.Close()

	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct{ config, want string }{
		{`{host: 127.0.0.1, port: ` + port + `, begin: "220"}`, "probe banner 127.0.0.1 true metadata.annotations[prober.dev/probes][c].readiness.banner true true\nSuccess 220 ready\n"},
		{`{port: 70000, beg: x}`, "error metadata.annotations[prober.dev/probes][c].readiness.banner.beg: Invalid value: unknown field (did you mean \"begin\"?)\n"},
	} {
		ctx := t.Context()
		cmd := exec.CommandContext(ctx, "go", "run", "-overlay", file, "./internal/fifth", c.config)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.config, out, err, c.want)
		}
	}
}
