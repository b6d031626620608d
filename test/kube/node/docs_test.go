//go:build linux

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
	"github.com/daeace23/prober/test/kube/bed"
)

// TestFirstGatePage runs docs/kubernetes/first-gate.md in a copy of the folders that it names. The image of the page
// is a tag of ours. The app of the tests is its redis, and is sick where redis has a password.
func TestFirstGatePage(t *testing.T) {
	c := bed.Up(t, bed.Node)
	c.ImportProber(t)
	tag := exec.Command("ctr", "--namespace=k8s.io", "images", "tag", "--force", bed.ProberImage, "registry.example.com/prober:0.9.0")
	if out, err := tag.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	for _, folder := range []string{"deploy/kubernetes", "examples/kubernetes"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("../../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	replaceIn(t, filepath.Join(dir, "examples/kubernetes/gate.yaml"),
		"image: redis:8.2\n", "image: "+bed.AppImage+"\n        env: [{name: RESP_ADDR, value: ':6379'}]\n")

	ns := c.Namespace(t)
	config, err := os.ReadFile(bed.Kubeconfig("admin"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, config, 0o600); err != nil {
		t.Fatal(err)
	}
	replaceIn(t, kubeconfig, "    user: user\n", "    user: user\n    namespace: "+ns+"\n")

	t.Cleanup(func() { // other tests have an agent of their own
		out, err := kubectl(t, "-n", system, "delete", "daemonset,deployment", "--all", "--cascade=foreground", "--timeout=2m")
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	askApp := func(path string) string {
		return fmt.Sprintf("kubectl -n %s exec ds/prober -- prober probe http http://$(kubectl get pods -l app=cache -o jsonpath='{.items[0].status.podIP}'):8080/%s >/dev/null && echo OK", system, path)
	}
	doctest.Run(t, doctest.Page{
		File: "../../../docs/kubernetes/first-gate.md",
		Dir:  dir,
		Env:  append(os.Environ(), "HOME="+dir, "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("PROBER_KUBE_TOOLS")+":"+os.Getenv("PATH")),
		Here: strings.NewReplacer(
			// The machine may be loaded: an open breaker would let no condition become false.
			"kind: AgentConfig\n", "kind: AgentConfig\nkubernetes: {breaker: {lag: 1h, pressure: {cpu: 100, memory: 100, io: 100}}}\n",
			"kubectl exec deploy/cache -- redis-cli config set requirepass secret", askApp("sick"),
			"kubectl exec deploy/cache -- redis-cli -a secret config set requirepass ''", askApp("well"),
		),
	})
}

// replaceIn replaces a text in a file, which must have it once.
func replaceIn(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), from); n != 1 {
		t.Fatalf("%s has %q %d times:\n%s", file, from, n, text)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
