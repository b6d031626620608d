package plugincmd_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

const programYAML = "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\n"

// demoProgram writes a program with its manifest and a signature, and works in its folder.
func demoProgram(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, ".", map[string]string{
		"here/prober-plugin-demo": "#!/bin/sh\n# here\n", "here/prober-plugin-demo.yaml": programYAML, "here/prober-plugin-demo.sig": "a signature",
		"there/prober-plugin-demo": "#!/bin/sh\n# there\n", "there/prober-plugin-demo.yaml": programYAML,
	})
	for _, file := range []string{"here/prober-plugin-demo", "there/prober-plugin-demo"} {
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"out", "plugins"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// isDemo fails unless the program and its manifest exist, and the program is executable.
func isDemo(t *testing.T, path, where string, signature []byte) {
	t.Helper()
	checkFile(t, path, []byte("#!/bin/sh\n# "+where+"\n"))
	checkFile(t, path+".yaml", []byte(programYAML))
	checkFile(t, path+".sig", signature)
	for file, want := range map[string]os.FileMode{path: 0o755, path + ".yaml": 0o644} {
		if info, err := os.Stat(file); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}

// A program is transferred by a registry or a layout, with its manifest and signature, for one platform after
// the other.
func TestPushAndPullProgram(t *testing.T) {
	demoProgram(t)
	host, here, signature := hub(t, nil), runtime.GOOS+"/"+runtime.GOARCH, []byte("a signature")
	command := func(args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
		if code != 0 {
			t.Fatalf("%q: exit code %d, %s", args, code, stderr)
		}
		return stdout, stderr
	}
	ref := host + "/me/demo:1"
	first, told := command("push", "here/prober-plugin-demo", ref, "--plain-http")
	if told != "prober: pushed demo 1.0.0 for "+here+" with its signature as "+ref+"\n" {
		t.Errorf("told %q", told)
	}
	both, told := command("push", "there/prober-plugin-demo", ref, "--plain-http", "--platform", "aix/ppc64")
	if both == first || told != "prober: pushed demo 1.0.0 for aix/ppc64 as "+ref+", which is there for aix/ppc64, "+here+"\n" {
		t.Errorf("%s, told %q", both, told)
	}
	_, digest, _ := strings.Cut(both, "@")

	if pinned, told := command("pull", ref, "--plain-http", "-o", "plugins"); pinned != both || told != "prober: wrote demo 1.0.0 for "+here+" with its signature to plugins/prober-plugin-demo\n" {
		t.Errorf("%s, told %q", pinned, told)
	}
	isDemo(t, "plugins/prober-plugin-demo", "here", signature)
	// List finds the program, and the signature of the previous file is removed.
	if listed, _ := command("list", "--plugins", "plugins"); !strings.Contains(listed, "1.0.0    process") {
		t.Errorf("got %s", listed)
	}
	clitest.WriteTree(t, "plugins", map[string]string{"prober-plugin-demo.sigstore.json": "{}"})
	command("pull", ref, "--plain-http", "--platform", "aix/ppc64", "-o", "plugins/prober-plugin-demo")
	isDemo(t, "plugins/prober-plugin-demo", "there", nil)
	checkFile(t, "plugins/prober-plugin-demo.sigstore.json", nil)

	for _, out := range []string{"all.tar", "all"} {
		if saved, _ := command("save", ref, "--plain-http", "-o", out); saved != digest {
			t.Errorf("%s: got %s, want %s", out, saved, digest)
		}
		command("load", out, "-o", "out")
		isDemo(t, "out/prober-plugin-demo", "here", signature)
		command("load", out, "-o", "out", "--platform", "aix/ppc64")
		isDemo(t, "out/prober-plugin-demo", "there", nil)
	}
	one, _ := command("save", ref, "--plain-http", "-o", "one.tar", "--platform", "aix/ppc64")
	if one == digest {
		t.Error("one platform has the digest of both")
	}
	if loaded, _ := command("load", "one.tar", "-o", "out", "--platform", "aix/ppc64"); loaded != one {
		t.Errorf("got %s, want %s", loaded, one)
	}
	// Saving pulled platforms one by one into a folder gives the same artifact as the registry.
	command("pull", ref, "--plain-http", "--platform", "aix/ppc64", "-o", "there")
	command("pull", ref, "--plain-http", "-o", "here")
	command("save", "there/prober-plugin-demo", "-o", "folder", "--platform", "aix/ppc64")
	if saved, _ := command("save", "here/prober-plugin-demo", "-o", "folder"); saved == digest {
		t.Error("the digest of one program is that of both")
	}
	if loaded, _ := command("load", "folder", "-o", "out"); loaded != digest {
		t.Errorf("got %s, want %s", loaded, digest)
	}
}

// A program is built in the folder of its project, beside plugin.yaml. Push and sign check it there, and start nothing.
func TestVetAndPushProgramOfProject(t *testing.T) {
	demoProgram(t)
	host := hub(t, nil)
	clitest.WriteTree(t, "here", map[string]string{
		"plugin.yaml":    programYAML + "runtime: process\nconfig: {schema: {type: object}}\n",
		"demo_test.yaml": "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./prober-plugin-demo\ncases: []\n",
	})
	if err := os.Rename("there/prober-plugin-demo", "here/prober-plugin-other"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"vet", "here/prober-plugin-demo"}, 0, ""},
		{[]string{"vet", "here/prober-plugin-other"}, 64, "here/prober-plugin-other: the plugin.yaml beside it describes here/prober-plugin-demo"},
		{[]string{"push", "here/prober-plugin-demo", host + "/demo:1", "--plain-http"}, 0, "pushed demo 1.0.0 for "},
	} {
		if code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, tc.args...)...); code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
			t.Errorf("%q: exit code %d, want %d with %q\n%s%s", tc.args, code, tc.code, tc.want, stdout, stderr)
		}
	}
}

func TestProgramErrors(t *testing.T) {
	demoProgram(t)
	host := hub(t, nil)
	elf := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xb7\x00" + strings.Repeat("\x00", 44)
	clitest.WriteTree(t, ".", map[string]string{
		"arm/prober-plugin-demo": elf, "arm/prober-plugin-demo.yaml": programYAML,
		"check/plugin.yaml": "apiVersion: prober.dev/v1\nname: check\nversion: 1.0.0\nruntime: nagios\ncommand: [check_it]\n",
		"demo.wasm":         "",
	})
	if err := os.Chmod("arm/prober-plugin-demo", 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Run(nil, "plugin", "push", "there/prober-plugin-demo", host+"/demo:1", "--plain-http", "--platform", "aix/ppc64"); code != 0 {
		t.Fatal(stderr)
	}
	here := runtime.GOOS + "/" + runtime.GOARCH
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"push", "here/prober-plugin-demo", host + "/demo:1", "--platform", "linux"}, 64, `--platform: "linux" is not a platform: must be OS/ARCHITECTURE, such as linux/arm64`},
		{[]string{"push", "arm/prober-plugin-demo", host + "/demo:1", "--platform", "linux/riscv64"}, 64, "it was built for unix/arm64, not for linux/riscv64"},
		{[]string{"push", "arm/prober-plugin-demo", host + "/demo:1", "--platform", "windows/arm64"}, 64, "it was built for unix/arm64, not for windows/arm64"},
		{[]string{"push", "check", host + "/demo:1"}, 64, "check/plugin.yaml is a command of this host, and cannot be pushed"},
		{[]string{"pull", host + "/demo:1", "--plain-http"}, 1, host + "/demo:1 has no program for " + here + "; it has aix/ppc64\nprober: hint: --platform names another one\n"},
		{[]string{"pull", host + "/demo:1", "--plain-http", "--platform", "aix/ppc64", "-o", "demo"}, 64, "-o demo: a program must be called prober-plugin-NAME; want such a file, or a folder"},
		{[]string{"pull", "--agent-config", "prober.yaml", "--platform", "aix/ppc64"}, 64, "pull: --agent-config takes neither REF nor -o nor --platform"},
		{[]string{"load", "nosuch", "--platform", "x"}, 64, `"x" is not a platform`},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, tc.args...)...)
		if code != tc.code || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit code %d, want %d with %q\n%s%s", tc.args, code, tc.code, tc.want, stdout, stderr)
		}
	}
	demoFile(t)
	if code, _, stderr := clitest.Run(nil, "plugin", "push", "demo.wasm", host+"/demo:1", "--platform", "linux/arm64"); code != 64 || !strings.Contains(stderr, "--platform is for programs, and demo.wasm is a module, which runs on all platforms") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
