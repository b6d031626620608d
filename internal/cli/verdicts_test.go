package cli_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/pods/targets"
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

// verdicts are sets of files that prober run, a reload and prober validate accept ("good") or refuse with the
// same errors ("bad"). Files that are "bad on the host" are refused by an agent alone, since validate reads no
// secret. PLUGIN is a valid module, and NEEDY one that requests kv.
var verdicts = []struct {
	name  string
	files map[string]string // pods/*, plugins/*, prober.yaml, blackbox.yml, web.yml, lock
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
	{"field of a shipped plugin", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: httpcheck, config: {ulr: /}}}")}, "bad"},
	{"config that httpcheck refuses", map[string]string{"pods/a.yaml": withProbe(`{plugin: {name: httpcheck, config: {url: /, failIfBodyMatchesRegexp: ["a(b"]}}}`)}, "bad"},
	{"config that expect refuses", map[string]string{"pods/a.yaml": withProbe(`{plugin: {name: expect, target: {port: 1}, config: {queryResponse: [{expect: "a(b"}]}}}`)}, "bad"},
	{"config that dns refuses", map[string]string{"pods/a.yaml": withProbe(`{plugin: {name: dns, target: {port: 53}, config: {queryName: a.test, queryType: BOGUS}}}`)}, "bad"},
	{"config that icmp refuses", map[string]string{"pods/a.yaml": withProbe(`{plugin: {name: icmp, config: {payloadSize: 70000}}}`)}, "bad"},
	{"config of a target that httpcheck refuses", map[string]string{"prober.yaml": agentHead + `targets: [{name: g, static: [h], probe: {plugin: {name: httpcheck, config: {url: /, failIfBodyMatchesRegexp: ["a(b"]}}}}]` + "\n"}, "bad"},
	{"config that httpcheck refuses, and a secret", map[string]string{
		"prober.yaml": agentHead + "secrets: {allow: [\"file:*.pw\"]}\n", "a.pw": "secret",
		"pods/a.yaml": withProbe(`{plugin: {name: httpcheck, config: {url: /, bearerToken: "${file:a.pw}", failIfBodyMatchesRegexp: ["a(b"]}}}`),
	}, "bad"},
	{"config with a secret", map[string]string{
		"prober.yaml": agentHead + "secrets: {allow: [\"file:*.pw\"]}\n", "a.pw": "/ok",
		"pods/a.yaml": withProbe(`{plugin: {name: httpcheck, config: {url: "${file:a.pw}"}}}`),
	}, "good"},
	{"manifest and target", map[string]string{"pods/a.yaml": withContainer("livenessprobe: {}"), "prober.yaml": agentHead + "targets: [{name: g, static: [h], probe: {htp: {}}}]\n"}, "bad"},
	{"timeout longer than the period", map[string]string{"pods/a.yaml": withContainer("livenessProbe: {periodSeconds: 1, timeoutSeconds: 2, tcpSocket: {port: 1}}")}, "good"},

	{"static target", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [\"a b\"], probe: {httpGet: {}}}]\n"}, "bad"},
	{"two static targets of a name", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a, a], probe: {httpGet: {}}}]\n"}, "bad"},
	{"static target that a rule drops", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], probe: {httpGet: {}}, relabel: [{drop: \"true\"}]}]\n"}, "good"},
	{"template of a target", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], probe: {httpGet: {}}, relabel: [{name: \"{{.nam}}\"}]}]\n"}, "bad"},
	{"probe of a target", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], probe: {httpGet: {port: web}}}]\n"}, "bad"},
	{"unknown handler of a target", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], probe: {plugin: {name: htp}}}]\n"}, "bad"},
	{"secret of a target", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], probe: {exec: {command: [a, \"${env:A}\"]}}}]\n"}, "bad"},
	{"module of targets", map[string]string{"prober.yaml": agentHead + "targets: [{name: g, static: [a], module: m}]\n"}, "bad"},

	{"template of a receiver", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a, webhook: {url: \"http://h/\", format: template, template: \"{{nosuch}}\"}}]}\n"}, "bad"},
	{"missing template of a receiver", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a, webhook: {url: \"http://h/\", format: template, templateFile: nosuch}}]}\n"}, "bad"},
	{"receiver", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a, webhook: {url: \"http://h/\", format: template, template: \"{}\"}}]}\n"}, "good"},
	{"unknown state of a receiver", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a, states: [down], webhook: {url: \"http://h/\"}}]}\n"}, "bad"},
	{"receiver without a way", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a}]}\n"}, "bad"},
	{"otlp", map[string]string{"prober.yaml": agentHead + "otlp: {endpoint: \"ftp://h\"}\n"}, "bad"},
	{"kubernetes", map[string]string{"prober.yaml": agentHead + "kubernetes: {liveness: {onFailure: reboot}}\n"}, "bad"},
	{"credentials", map[string]string{"prober.yaml": agentHead + "credentials: [{name: a, cert: c.pem, plugins: [httpcheck]}]\n"}, "bad"},
	{"secrets", map[string]string{"prober.yaml": agentHead + "secrets: {allow: [\"file:../*\"]}\n"}, "bad"},
	{"handlers", map[string]string{"prober.yaml": agentHead + "handlers: [{name: htp, maxInFlight: 1}]\n"}, "bad"},
	{"two receivers of a name and an unknown field", map[string]string{"prober.yaml": agentHead + "notify: {receivers: [{name: a}, {name: a, webhook: {url: \"http://h/\"}}]}\nnagios: {folder: a}\n"}, "bad"},

	{"blackbox module", map[string]string{"blackbox.yml": "modules: {a: {prober: http, http: {fail_if_body_not_matches_regexp: [\"a(b)\"]}}}\n"}, "good"},
	{"blackbox module that prober does not have", map[string]string{"blackbox.yml": "modules: {a: {prober: http, http: {oauth2: {client_id: a}}}, b: {prober: unix}}\n"}, "good"},
	{"blackbox module with a missing file", map[string]string{"blackbox.yml": "modules: {a: {prober: http, http: {bearer_token_file: /no/such}}}\n"}, "good"},
	{"regular expression of a blackbox module", map[string]string{"blackbox.yml": "modules: {a: {prober: http, http: {fail_if_body_not_matches_regexp: [\"a(b\"]}}}\n"}, "bad"},
	{"regular expressions of blackbox modules", map[string]string{"blackbox.yml": "modules:\n  a: {prober: tcp, tcp: {query_response: [{expect: \"a(b\"}]}}\n  b: {prober: dns, dns: {query_name: a.test, query_type: BOGUS}}\n  c: {prober: icmp, icmp: {payload_size: 70000}}\n"}, "bad"},
	{"unknown field of a blackbox module", map[string]string{"blackbox.yml": "modules: {a: {prober: http, http: {fail_if_no_ssl: true}}}\n"}, "bad"},
	{"everything is wrong", map[string]string{
		"blackbox.yml": "modules: {a: {prober: http, http: {fail_if_body_not_matches_regexp: [\"a(b\"]}}}\n", "pods/a.yaml": withContainer("livenessprobe: {}"),
		"prober.yaml": agentHead + "targets: [{name: g, static: [\"a b\"], probe: {httpGet: {}}}]\nnotify: {receivers: [{name: a, webhook: {url: \"http://h/\", format: template, template: \"{{nosuch}}\"}}]}\n",
		"web.yml":     "basic_auth_users: {a: plain}\n",
	}, "bad"},

	{"web config", map[string]string{"web.yml": "http_server_config: {headers: {X-Frame-Options: deny}}\n"}, "good"},
	{"unknown field of the web config", map[string]string{"web.yml": "tls: {}\n"}, "bad"},
	{"missing certificate of the web config", map[string]string{"web.yml": "tls_server_config: {cert_file: c.pem, key_file: k.pem}\n"}, "bad"},
	{"password of the web config", map[string]string{"web.yml": "basic_auth_users: {a: plain}\n"}, "bad"},

	{"module without export probe", map[string]string{"pods/a.yaml": withProbe("{plugin: {name: demo}}"), "plugins/demo.wasm": "BARE"}, "bad"},
}

const (
	zeros64        = "0000000000000000000000000000000000000000000000000000000000000000"
	strictManifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: strict\nversion: 1.0.0\n" +
		"config: {schema: {type: object, properties: {a: {type: string, maxLength: 3}}}}\n"
)

func TestValidateStartAndReloadHaveOneVerdict(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, key, _ := clitest.Run(nil, "plugin", "keygen", "-o", filepath.Join(t.TempDir(), "ops.key"))
	kinds := map[string]string{
		"PLUGIN": clitest.Module(t, 0), "BARE": strings.Replace(clitest.Module(t, 0), "\x05probe", "\x05prope", 1), "KEY": key,
		"NEEDY": clitest.Embed(t, clitest.Module(t, 0), clitest.Manifest+"requests: [{capability: kv, reason: it counts}]\n"),
	}
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"pods/a.yaml": withContainer("")}
			good := make(map[string]string) // at the same paths
			for name, text := range c.files {
				files[name] = text
				if kind, ok := kinds[text]; ok {
					files[name] = kind
				}
				switch name {
				case "prober.yaml":
					good[name] = agentHead
				case "blackbox.yml":
					good[name] = "modules: {}\n"
				case "web.yml":
					good[name] = "{}\n"
				case "lock":
					good[name] = "apiVersion: prober.dev/v1\nkind: PluginLock\nplugins: []\n"
				}
			}
			good["pods/a.yaml"] = withContainer("")
			cfg, args := flagsOf(dir, files)
			clitest.WriteTree(t, dir, good)
			if _, set := files["plugins/none"]; set || len(cfg.PluginDirs) > 0 {
				clitest.WriteTree(t, dir, map[string]string{"plugins/README": "none"})
			}
			reloads := reloaded(t, cfg, func() { clitest.WriteTree(t, dir, files) })
			runs := refusal(t, cfg)
			code, stdout, stderr := clitest.Run(nil, args...)
			var validates []string
			if stdout != "" {
				validates = strings.Split(strings.TrimSpace(stdout), "\n")
				slices.Sort(validates)
			}
			if bad := c.want != "good"; len(runs) > 0 != bad || len(reloads) > 0 != bad {
				t.Errorf("run: %q\nreload: %q\nwant %s", runs, reloads, c.want)
			}
			if (code == 1) != (c.want == "bad") || code > 1 {
				t.Errorf("validate: exit code %d, want %s; run says: %v\n%s%s", code, c.want, runs, stdout, stderr)
			}
			if diff := cmp.Diff(runs, validates); diff != "" && c.want != "bad on the host" {
				t.Errorf("validate says something else than run (-run +validate):\n%s", diff)
			}
			if diff := cmp.Diff(runs, reloads); diff != "" {
				t.Errorf("a reload says something else than run (-run +reload):\n%s", diff)
			}
		})
	}
}

// flagsOf returns the config of an agent, and the arguments of validate, for files in dir.
func flagsOf(dir string, files map[string]string) (cfg agent.Config, args []string) {
	path := func(name string) string { return filepath.Join(dir, name) }
	args = []string{"validate", path("pods")}
	cfg = agent.Config{Listen: "127.0.0.1:0", PollInterval: time.Hour}
	for name := range files {
		switch {
		case strings.HasPrefix(name, "plugins/") && cfg.PluginDirs == nil:
			cfg.PluginDirs, args = []string{path("plugins")}, append(args, "--plugins", path("plugins"))
		case name == "prober.yaml":
			cfg.ConfigFile, args = path(name), append(args, "--config", path(name))
		case name == "lock":
			cfg.LockFile, args = path(name), append(args, "--plugins-lock", path(name))
		case name == "blackbox.yml":
			cfg.BlackboxConfig, args = path(name), append(args, "--blackbox-config", path(name))
		case name == "web.yml":
			cfg.WebConfigFile, args = path(name), append(args, "--web.config.file", path(name))
		}
	}
	cfg.Source = func(ctx context.Context, host pods.Host) (pods.Source, error) {
		var more local.Config
		if cfg.ConfigFile != "" {
			more.Generator = targets.New(targets.Config{ConfigFile: cfg.ConfigFile, Logger: host.Logger, PollInterval: host.PollInterval})
		}
		source, err := local.NewPodSource(ctx, &manifest.Source{Paths: []string{path("pods")}, System: runtime.GOOS}, more, host)
		if err != nil {
			return pods.Source{}, err
		}
		return source.ForAgent(), nil
	}
	return cfg, args
}

// refusal returns the errors of an agent that does not start.
func refusal(t *testing.T, cfg agent.Config) []string {
	t.Helper()
	a, err := agent.New(t.Context(), cfg)
	if err != nil {
		return texts(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	return nil
}

// reloaded returns the errors of a reload after a change.
func reloaded(t *testing.T, cfg agent.Config, change func()) []string {
	t.Helper()
	ready := make(chan struct{})
	cfg.AddrFile = filepath.Join(t.TempDir(), "address")
	cfg.Notify = func(step agent.Step) {
		if step == agent.Ready {
			close(ready)
		}
	}
	a, err := agent.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-ready
	address, err := os.ReadFile(cfg.AddrFile)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + string(address) + "/healthz") // it waits until the web config was read
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	change()
	err = a.Reload(ctx)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return texts(err)
}

// texts returns the texts of the errors that err joins, sorted, each on one line.
func texts(err error) (all []string) {
	for _, err := range joined.Errors(err) {
		all = append(all, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	slices.Sort(all)
	return all
}
