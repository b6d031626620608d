package manifest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/pods/local/manifest"
)

// identityPod returns a pod with a container with a command. The arguments are the values of annotations and of both
// security contexts.
func identityPod(annotations, pod, container string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: " + annotations +
		"\nspec:\n  securityContext: " + pod + "\n  containers:\n  - name: c\n    command: [sleep, '1']\n    securityContext: " + container + "\n"
}

// loadOn loads a manifest for a system, and returns the text of the error.
func loadOn(t *testing.T, system, text string) string {
	t.Helper()
	_, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text), System: system}).Load(t.Context())
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestIdentityIsValidated(t *testing.T) {
	for _, c := range []struct{ annotations, pod, container, want string }{
		{"{}", "{runAsUser: -1}", "{}", "-:7: spec.securityContext.runAsUser: must be between 0 and 2147483647"},
		{"{}", "{runAsGroup: 2147483648}", "{}", "-:7: spec.securityContext.runAsGroup: must be between 0 and 2147483647"},
		{"{}", "{supplementalGroups: [1, -2]}", "{}", "-:7: spec.securityContext.supplementalGroups[1]: must be between 0 and 2147483647"},
		{"{}", "{}", "{runAsUser: -1}", "-:11: spec.containers[0].securityContext.runAsUser: must be between 0 and 2147483647"},
		{"{}", "{}", "{runAsGroup: -1}", "-:11: spec.containers[0].securityContext.runAsGroup: must be between 0 and 2147483647"},
		{"{}", "{runAsNonRoot: true}", "{runAsUser: 0}", "-:7: spec.securityContext.runAsNonRoot: runAsUser is 0"},
		{"{}", "{runAsNonRoot: true}", "{runAsUser: 0, runAsNonRoot: false}", ""},
		{"{}", "{runAsUser: 0}", "{runAsNonRoot: true}", "-:11: spec.containers[0].securityContext.runAsNonRoot: runAsUser is 0"},
		{"{}", "{fsGroup: 1}", "{}", "-:7: spec.securityContext.fsGroup: is not supported for a local process"},
		{"{}", "{}", "{privileged: true}", "-:11: spec.containers[0].securityContext.privileged: is not supported for a local process"},
		{`{prober.dev/umask: "027", prober.dev/umask.c: "777"}`, "{}", "{}", ""},
		{`{prober.dev/umask: "028"}`, "{}", "{}", "-:5: metadata.annotations[prober.dev/umask]: must be an octal number from 000 to 777, such as 027"},
		{`{prober.dev/umask.c: "1000"}`, "{}", "{}", "-:5: metadata.annotations[prober.dev/umask.c]: must be an octal number from 000 to 777, such as 027"},
		{`{prober.dev/umask.d: "022"}`, "{}", "{}", `-:5: metadata.annotations[prober.dev/umask.d]: there is no container "d"; known: c`},
		{`{prober.dev/umaks: "022"}`, "{}", "{}", `-:5: metadata.annotations[prober.dev/umaks]: unknown annotation; known: prober.dev/address, prober.dev/probes, prober.dev/umask (did you mean "prober.dev/umask"?)`},
	} {
		got := loadOn(t, "", identityPod(c.annotations, c.pod, c.container)) // independent of the user and the system
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("annotations %s, pod %s, container %s:\n%s\nwant %s", c.annotations, c.pod, c.container, got, c.want)
		}
	}
	external := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    securityContext: {runAsUser: 1}\n"
	if got, want := loadOn(t, "linux", external), "-:7: spec.containers[0].securityContext: is not supported for a local process"; got != want {
		t.Errorf("an external target: %s, want %s", got, want)
	}
	if got := loadOn(t, "windows", identityPod("{}", "{runAsUser: 1}", "{}")); !strings.Contains(got, "local pods need Linux") {
		t.Errorf("on Windows: %s", got)
	}
}

// identities has the errors for root, and for the user 65534 with the group 65534.
var identities = []struct{ pod, container, root, nobody string }{
	{"{}", "{}", "", ""},
	{"{runAsUser: 65534, runAsGroup: 65534}", "{}", "", ""},
	{"{runAsUser: 0}", "{}", "", "-:7: spec.securityContext.runAsUser: needs root: prober runs as user 65534 with group 65534"},
	{"{}", "{runAsUser: 1234, runAsGroup: 1}", "", "-:11: spec.containers[0].securityContext.runAsUser: needs root: prober runs as user 65534 with group 65534"},
	{"{}", "{runAsGroup: 1}", "", "-:11: spec.containers[0].securityContext.runAsGroup: needs root: prober runs as user 65534 with group 65534"},
	{"{supplementalGroups: [1]}", "{}", "", "-:7: spec.securityContext.supplementalGroups: needs root: prober runs as user 65534 with group 65534"},
	{"{runAsUser: 1234567}", "{}", "-:7: spec.securityContext.runAsUser: needs runAsGroup: this host has no user 1234567",
		"-:7: spec.securityContext.runAsUser: needs root: prober runs as user 65534 with group 65534"},
	{"{runAsNonRoot: true}", "{}", "-:7: spec.securityContext.runAsNonRoot: prober runs as root, and runAsUser is not set", ""},
}

func TestIdentityNeedsRoot(t *testing.T) {
	if os.Geteuid() != 0 && os.Geteuid() != 65534 {
		t.Skip("a test for root, which runs it again for another user")
	}
	for _, c := range identities {
		want := c.root
		if os.Geteuid() != 0 {
			want = c.nobody
		}
		if diff := cmp.Diff(want, loadOn(t, "linux", identityPod("{}", c.pod, c.container))); diff != "" {
			t.Errorf("pod %s, container %s, as user %d:\n%s", c.pod, c.container, os.Geteuid(), diff)
		}
	}
	if os.Geteuid() == 0 {
		againAsNobody(t)
	}
}

// againAsNobody runs the present test again for another user.
func againAsNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nobody") // only root can read the folders of go test
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("--- PASS: %s", t.Name())) {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

func TestIdentityHasGroupsOfUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give containers another user")
	}
	pods := load(t, identityPod("{}", "{runAsUser: 65534, supplementalGroups: [9, 9, 4]}", "{}"))
	got, err := manifest.IdentityOf(pods[0], &pods[0].Spec.Containers[0])
	want := &manifest.Identity{User: 65534, Group: 65534, Groups: []uint32{4, 9, 65534}, Home: "/nonexistent"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil { // as Debian's /etc/passwd has nobody
		t.Errorf("%v\n%s", err, diff)
	}
}
