//go:build e2e

package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/pluginpb"
)

// TestPluginInPython runs a process plugin that is not written in Go.
func TestPluginInPython(t *testing.T) {
	plugins := t.TempDir() // no other user may write there, regardless of the umask of the checkout
	for name, mode := range map[string]os.FileMode{"prober-plugin-sqlite": 0o700, "prober-plugin-sqlite.yaml": 0o600} {
		data, err := os.ReadFile(filepath.Join("../../examples/python", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(plugins, name), data, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(t.TempDir(), "jobs.db")
	// Import the modules once, so that they are in the page cache: the plugin has five seconds to start.
	fill := exec.Command("/usr/bin/python3", "-c", `import sqlite3, sys, grpc, cryptography.x509
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE jobs (failed)")
db.executemany("INSERT INTO jobs VALUES (?)", [(1,), (0,), (1,)])
db.commit()`, db)
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const failed, endless = `"SELECT count(*) FROM jobs WHERE failed"`,
		`"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c"`
	for _, c := range []struct{ name, file, query, more, result, text string }{
		{"below", db, failed, `,"warnAbove":2,"failAbove":10`, "success", "the query answers 2"},
		{"warning", db, failed, `,"warnAbove":1`, "warning", "the query answers 2"},
		{"failure", db, failed, `,"failAbove":1`, "failure", "the query answers 2"},
		{"no database", "/no/such.db", failed, ``, "failure", "unable to open database file"},
		{"not a number", db, `"SELECT 'x'"`, ``, "unknown", "no number"},
		{"number is not finite", db, `"SELECT 9e999"`, ``, "unknown", "no number"},
		{"no other mode", db + "?mode=rwc&x=", failed, ``, "failure", "unable to open database file"},
		{"endless", db, endless, ``, "failure", "timed out after 15s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, "sqlite", "127.0.0.1:1", `{"file":"`+c.file+`","query":`+c.query+c.more+`}`)
			want(t, v, code, c.result, c.text)
			if c.text == "the query answers 2" && (len(v.Metrics) != 1 || v.Metrics[0].Value != 2) {
				t.Errorf("metrics: %v", v.Metrics)
			}
		})
	}
	t.Run("a bad config", func(t *testing.T) {
		prober(t, plugins, 64, "probe", "plugin", "sqlite", "--plugins", ".", "--config", `{"file":"/x","query":"x","warnAbove":2,"failAbove":1}`)
	})
}

// TestNewInPython makes a project with the SDK, builds it twice, and runs all its tests.
func TestNewInPython(t *testing.T) {
	dir := t.TempDir()
	prober(t, dir, 0, "plugin", "new", "demo", "--lang", "python", "--kind", "process")
	first := prober(t, dir, 0, "plugin", "build", "demo")
	if again := prober(t, dir, 0, "plugin", "build", "demo"); first != again {
		t.Errorf("another build differs:\n%s%s", first, again)
	}
	if found := prober(t, dir, 0, "plugin", "vet", "demo"); found != "" {
		t.Errorf("plugin vet finds\n%s", found)
	}
	if tested := prober(t, dir, 0, "plugin", "test", "demo"); !strings.Contains(tested, "9 passed, 0 failed, ") {
		t.Errorf("plugin test says\n%s", tested)
	}
	tool(t, dir, "python3 -Werror check_test.py")
	check := filepath.Join(dir, "demo/check.py")
	source, err := os.ReadFile(check)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ more, config, result, text string }{
		{"def probe(request):\n    raise ValueError(request.config)\n", `{}`, "", "ValueError({"},
		{"def validate(config):\n    return None if config.get('send') else 'config.send: is not set'\n", `{}`, "", "config.send: is not set"},
		{"def probe(request):\n    return prober.unknown(request.duration('slow', 1))\n", `{"slow": "90s"}`, "unknown", "90.0"},
		{"def probe(request):\n    return prober.warning(request.duration('slow', 1))\n", `{"slow": "500ms"}`, "warning", "0.5"},
		{
			"def probe(request):\n    from decimal import Decimal\n" +
				"    return prober.success('numbers').metric('half', Decimal('0.5')).metric('nan', float('nan')).metric('inf', float('inf'))\n",
			`{}`, "success", "numbers",
		},
		{"def probe(request):\n    return prober.success('fine').metric('x', 1, labels={'of': b'x'})\n", `{}`, "", "TypeError("},
	} {
		write(t, filepath.Join(dir, "demo"), "check.py", string(source)+c.more)
		prober(t, dir, 0, "plugin", "build", "demo")
		if c.result == "" {
			text := exec.Command(filepath.Join(bin, "prober"), "probe", "plugin", "demo", "--plugins", filepath.Join(dir, "demo"), "--target", "127.0.0.1:1", "--config", c.config)
			if out, err := text.CombinedOutput(); err == nil || !strings.Contains(string(out), c.text) {
				t.Errorf("%s: %v, want %q in\n%s", c.more, err, c.text, out)
			}
			continue
		}
		v, code := probePluginIn(t, filepath.Join(dir, "demo"), "demo", "127.0.0.1:1", c.config)
		want(t, v, code, c.result, c.text)
	}
}

// TestNagiosCheckInPython makes the project of a check, runs its cases, and breaks it.
func TestNagiosCheckInPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prober(t, dir, 0, "plugin", "new", "demo", "--lang", "python", "--kind", "nagios")
	if found := prober(t, dir, 0, "plugin", "vet", "demo"); found != "" {
		t.Errorf("plugin vet finds\n%s", found)
	}
	if tested := prober(t, dir, 0, "plugin", "test", "demo"); !strings.Contains(tested, "7 passed, 0 failed, 4 left out") {
		t.Errorf("plugin test says\n%s", tested)
	}
	command := filepath.Join(dir, "demo/check_demo")
	source, err := os.ReadFile(command)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, outcome, wantLine string, wantCode int, arguments ...string) {
		t.Helper()
		text := strings.Replace(string(source), "    return judge(", "    "+outcome+"\n    return judge(", 1)
		write(t, filepath.Join(dir, "demo"), "check_demo", text)
		cmd := exec.Command(command, arguments...)
		cmd.Env = []string{"LC_ALL=C"}
		out, _ := cmd.Output()
		if got := string(out); got != wantLine+"\n" || cmd.ProcessState.ExitCode() != wantCode {
			t.Errorf("%s: %d, %q; want %d, %q", name, cmd.ProcessState.ExitCode(), got, wantCode, wantLine)
		}
	}
	given := []string{"-w", "1", "-c", "2", dir}
	check("no arguments", "", "UNKNOWN - check_demo: the following arguments are required: -w, -c, folder", 3)
	check("arguments", "", "OK - 1 entries in "+dir+" | entries=1", 0, given...)
	check("text", `return prober.warning("a|b\nc \u00e9\udcff")`, "WARNING - a/b c \u00e9?", 1, given...)
	check("numbers", `return prober.failure("x").metric("a", 1e-7, "s").metric("b", 1e22).metric("c", float("nan"))`, "CRITICAL - x | a=0.0000001s b=10000000000000000000000", 2, given...)
	check("labels", `return prober.success("x").metric("a", 1, labels={"b": "c"})`, "UNKNOWN - ValueError(\"Nagios has no metric like {'name': 'a', 'value': 1.0, 'unit': '', 'labels': {'b': 'c'}}\")", 3, given...)
	check("unit", `return prober.success("x").metric("a", 1, "1/s")`, "UNKNOWN - ValueError(\"Nagios has no metric like {'name': 'a', 'value': 1.0, 'unit': '1/s', 'labels': {}}\")", 3, given...)
	check("exception", `raise KeyError("x")`, "UNKNOWN - KeyError('x')", 3, given...)
	check("no outcome", "return", "UNKNOWN - AttributeError(\"'NoneType' object has no attribute 'result'\")", 3, given...)
}

// TestPluginInPythonEndsWithHost starts the plugin as its host, and ends the connection.
func TestPluginInPythonEndsWithHost(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	ours, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	plugin := exec.Command("/usr/bin/python3", "../../examples/python/prober-plugin-sqlite")
	plugin.Env = []string{
		pluginpb.CookieKey + "=" + pluginpb.CookieValue, "PLUGIN_UNIX_SOCKET_DIR=" + dataFolder(t),
		"PLUGIN_CLIENT_CERT=" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours})),
	}
	plugin.Stderr = os.Stderr
	stdin, err := plugin.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := plugin.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	fields := strings.Split(strings.TrimSpace(line), "|")
	if err != nil || len(fields) != 6 {
		t.Fatalf("got %q, %v", line, err)
	}
	der, err := base64.RawStdEncoding.DecodeString(fields[5])
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if public, ok := theirs.PublicKey.(*ecdsa.PublicKey); !ok || public.Curve != elliptic.P256() {
		t.Errorf("a key of %T, want one of P-256", theirs.PublicKey)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Wait(); err != nil {
		t.Errorf("it has not ended well: %v", err)
	}
}
