package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
)

// withProbe returns a pod with a probe in the annotation.
func withProbe(text string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {prober.dev/probes: '{c: {readiness: " + text + "}}'}}\nspec: {containers: [{name: c}]}\n"
}

// withContainer returns a pod with a container with the given fields.
func withContainer(fields string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, " + fields + "}]}\n"
}

const agentHead = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

// verdicts are sets of files that prober run and prober validate accept ("good") or refuse ("bad").
// Files that are "bad on the host" are refused by run alone, since validate compiles and runs
// nothing, and reads no secret. PLUGIN is a valid module, and NEEDY one that requests kv.
var verdicts = []struct {
	name  string
	files map[string]string // pods/*, plugins/*, prober.yaml, lock
	want  string
}{
	{"pod with plugin probe", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "PLUGIN"}, "good"},
	{"unused plugin without grant", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {tcpSocket: {port: 1}}"), "plugins/demo.wasm": "NEEDY"}, "good"},
	{"granted capability", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "NEEDY", "prober.yaml": agentHead + "plugins: [{name: demo, grants: [kv]}]\n"}, "good"},
	{"named port", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {httpGet: {port: web}}, ports: [{name: web, containerPort: 80}]")}, "good"},
	{"manifest with comments only", map[string]string{"pods/a.yaml": "# kind: Pod\n"}, "good"},

	{"invalid YAML", map[string]string{"pods/a.yaml": "a: ["}, "bad"},
	{"empty file", map[string]string{"pods/a.yaml": " \n"}, "bad"},
	{"unsupported kind", map[string]string{"pods/a.yaml": "apiVersion: v1\nkind: Service\n"}, "bad"},
	{"unknown field", map[string]string{"pods/a.yaml": withContainer("livenessprobe: {}")}, "bad"},
	{"unsupported field", map[string]string{"pods/a.yaml": withContainer("resources: {limits: {cpu: 1}}")}, "bad"},
	{"number out of range", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {periodSeconds: -1, tcpSocket: {port: 1}}")}, "bad"},
	{"two pods with one name", map[string]string{"pods/a.yaml": withContainer(""), "pods/b.yaml": withContainer("")}, "bad"},
	{"unknown annotation", map[string]string{"pods/a.yaml": strings.Replace(withProbe("{plugin: {name: demo}}"), "/probes", "/prob", 1)}, "bad"},
	{"invalid address", map[string]string{"pods/a.yaml": strings.Replace(withContainer(""), "{name: p}", "{name: p, annotations: {prober.dev/address: \"a:1\"}}", 1)}, "bad"},
	{"unknown port in httpGet", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {httpGet: {port: web}}")}, "bad"},
	{"unknown port in tcpSocket", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {tcpSocket: {port: web}}")}, "bad"},
	{"unknown port in a hook", map[string]string{"pods/a.yaml": withContainer("command: [a], lifecycle: {preStop: {httpGet: {port: web}}}")}, "bad"},
	{"unknown port in the annotation", map[string]string{"pods/a.yaml": withProbe("{httpGet: {port: web}}")}, "bad"},
	{"unknown port in a plugin's target", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo, target: {port: web}}}"), "plugins/demo.wasm": "PLUGIN"}, "bad"},
	{"unknown container", map[string]string{"pods/a.yaml": strings.Replace(withProbe("{exec: {command: [a]}}"), "{c: {", "{d: {", 1)}, "bad"},
	{"unknown handler", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: other}}"), "plugins/demo.wasm": "PLUGIN"}, "bad"},
	{"invalid config of a built-in handler", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: http, config: {port: {}}}}")}, "bad"},
	{"config that violates its schema", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: strict, config: {a: 1}}}"), "plugins/strict/plugin.yaml": strictManifest, "plugins/strict/x.wasm": "PLUGIN"}, "bad"},

	{"capability without grant", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "NEEDY"}, "bad"},
	{"grant of another capability", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "NEEDY", "prober.yaml": agentHead + "plugins: [{name: demo, grants: [dns]}]\n"}, "bad"},
	{"invalid module", map[string]string{"pods/a.yaml": withContainer(""), "plugins/demo.wasm": "oops"}, "bad"},
	{"two plugins with one name", map[string]string{"pods/a.yaml": withContainer(""), "plugins/a.wasm": "PLUGIN", "plugins/b.wasm": "PLUGIN"}, "bad"},
	{"wrong digest", map[string]string{"pods/a.yaml": withContainer(""), "plugins/demo.wasm": "PLUGIN", "prober.yaml": agentHead + "plugins: [{name: demo, digest: \"sha256:" + zeros64 + "\"}]\n"}, "bad"},
	{"plugin of prober.yaml not found", map[string]string{"pods/a.yaml": withContainer(""), "prober.yaml": agentHead + "plugins: [{name: demo}]\n"}, "bad"},
	{"missing source", map[string]string{"pods/a.yaml": withContainer(""), "prober.yaml": agentHead + "plugins: [{name: demo, source: ./demo.wasm}]\n"}, "bad"},
	{"shadow without plugin", map[string]string{"pods/a.yaml": withContainer(""), "plugins/none": "", "far.wasm": "PLUGIN", "prober.yaml": agentHead + "plugins: [{name: demo, source: ./far.wasm, shadow: true}]\n"}, "bad"},
	{"missing signature", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "PLUGIN", "ops.pub": "KEY", "prober.yaml": agentHead + "trust: {require: true, keys: [ops.pub]}\n"}, "bad"},
	{"missing key", map[string]string{"pods/a.yaml": withContainer(""), "prober.yaml": agentHead + "trust: {keys: [ops.pub]}\n"}, "bad"},
	{"plugin not in the lock", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "PLUGIN", "lock": "apiVersion: prober.dev/v1\nkind: PluginLock\nplugins: []\n"}, "bad"},
	{"invalid lock", map[string]string{"pods/a.yaml": withContainer(""), "lock": "oops"}, "bad"},
	{"invalid prober.yaml", map[string]string{"pods/a.yaml": withContainer(""), "prober.yaml": agentHead + "plugin: []\n"}, "bad"},

	{"secret file not allowed", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo, config: {a: \"${file:/no/such}\"}}}"), "plugins/demo.wasm": "PLUGIN"}, "bad"},
	{"secret variable not allowed", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo, config: {a: \"${env:NO_SUCH}\"}}}"), "plugins/demo.wasm": "PLUGIN"}, "bad"},
	{"missing secret", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo, config: {a: \"${file:/no/such}\"}}}"), "plugins/demo.wasm": "PLUGIN", "prober.yaml": agentHead + "secrets: {allow: [\"file:/no/*\"]}\n"}, "bad on the host"},
	{"secret for a field with a schema", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: strict, config: {a: \"${file:/no/such}\"}}}"), "plugins/strict/plugin.yaml": strictManifest, "plugins/strict/x.wasm": "PLUGIN", "prober.yaml": agentHead + "secrets: {allow: [\"file:/no/*\"]}\n"}, "bad on the host"},
	{"module without export probe", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "BARE"}, "bad"},
}

const (
	zeros64        = "0000000000000000000000000000000000000000000000000000000000000000"
	strictManifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: strict\nversion: 1.0.0\n" +
		"config: {schema: {type: object, properties: {a: {type: string, maxLength: 3}}}}\n"
)

func TestValidateRefusesWhatRunRefuses(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, key, _ := clitest.Run(nil, "plugin", "keygen", "-o", filepath.Join(t.TempDir(), "ops.key"))
	kinds := map[string]string{
		"PLUGIN": clitest.Module(t, 0), "BARE": strings.Replace(clitest.Module(t, 0), "\x05probe", "\x05prope", 1), "KEY": key,
		"NEEDY": clitest.Embed(t, clitest.Module(t, 0), clitest.Manifest+"requests: [{capability: kv, reason: it counts}]\n"),
	}
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := make(map[string]string)
			for name, text := range c.files {
				files[name] = text
				if kind, ok := kinds[text]; ok {
					files[name] = kind
				}
			}
			clitest.WriteTree(t, dir, files)
			manifests := filepath.Join(dir, "pods")
			cfg := agent.Config{Listen: "127.0.0.1:0", Source: func(ctx context.Context, host pods.Host) (pods.Source, error) {
				source, err := local.NewPodSource(ctx, &manifest.Source{Paths: []string{manifests}, System: runtime.GOOS}, local.Config{}, host)
				if err != nil {
					return pods.Source{}, err
				}
				return source.ForAgent(), nil
			}}
			args := []string{"validate", manifests}
			for name, set := range map[string]func(string){
				"plugins":     func(path string) { cfg.PluginDirs = []string{path}; args = append(args, "--plugins", path) },
				"prober.yaml": func(path string) { cfg.ConfigFile = path; args = append(args, "--config", path) },
				"lock":        func(path string) { cfg.LockFile = path; args = append(args, "--plugins-lock", path) },
			} {
				if path := filepath.Join(dir, name); exists(path) {
					set(path)
				}
			}
			runs := refusal(t, cfg)
			code, stdout, _ := clitest.Run(nil, args...)
			if got := (runs != nil); got != (c.want != "good") {
				t.Errorf("run: %v, want %s", runs, c.want)
			}
			if (code == 1) != (c.want == "bad") || code > 1 {
				t.Errorf("validate: exit code %d, want %s; run says: %v\n%s", code, c.want, runs, stdout)
			}
		})
	}
}

// refusal returns the error of an agent that does not start.
func refusal(t *testing.T, cfg agent.Config) error {
	t.Helper()
	a, err := agent.New(t.Context(), cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
