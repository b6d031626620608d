package plugintest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

const hostileRun = "conformance: peers that break the protocol"

// hostileGuest builds the module of testdata/hostile.
func hostileGuest(t *testing.T) string {
	t.Helper()
	module, err := hostileModule()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("testdata/hostile/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if data, err = plugin.Embed(data, manifest); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hostile.wasm")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var hostileModule = built("hostile.wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared", "./testdata/hostile")

// oneCase returns a test file with one case of another file.
func oneCase(t *testing.T, path, name string) *plugintest.File {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for item := range strings.SplitSeq(string(data), "\n- name: ") {
		if rest, ok := strings.CutPrefix(item, name+"\n"); ok {
			return load(t, "- name: "+name+"\n"+rest+"\n")
		}
	}
	t.Fatalf("%s: there is no case %q", path, name)
	return nil
}

// The check of hostile peers finds one fault in each check of testdata/hostile from its happy case, and none in
// the checks without a fault.
func TestHostilePeersFindFaults(t *testing.T) {
	t.Parallel()
	if race {
		t.Skip("hundreds of calls take minutes under the race detector")
	}
	module := hostileGuest(t)
	for _, c := range []struct{ check, want string }{
		{"good line", ""},
		{"good frame", ""},
		{"good status", ""},
		{"trusts length", "do not allocate a size that the peer claims"},
		{"trusts count", "without an end"},
		{"ignores EOF", "the peer closes after 6 of the 9 bytes of step 2: the result is success (1 jobs)"},
		{"ignores reset", "the peer resets the connection after 2 of the 14 bytes of step 2: the result is success (OK)"},
		{"loops on errors", "without an end"},
		{"any reply", "the peer sends an HTTP error in place of step 2: the result is success (HTTP/1.1 400 Bad Request)"},
		{"short line", `line 1 ends before "17": the result is error(trap)`},
		{"not JSON", "interface conversion"},
		{"not a number", "a value is not a number"},
		{"other protocol", "a greeting of POP3"},
		{"one read", "the peer sends byte by byte: the result is failure"},
		{"short datagram", "index out of range"},
		{"unbounded read", "of memory"},
		{"ignores status", "the status is 500: the result is success (ok)"},
	} {
		t.Run(c.check, func(t *testing.T) {
			f := oneCase(t, "testdata/hostile/hostile_test.yaml", c.check)
			report := run(t, f, plugintest.Config{Plugin: module, Run: regexp.MustCompile(hostileRun), Patience: time.Minute})
			r := report.Results[0]
			if all := strings.Join(r.Failures, "\n"); r.OK() != (c.want == "") || !strings.Contains(all, c.want) {
				t.Errorf("%s: got %.2000q, want %q in it", r.Note, r.Failures, c.want)
			}
			if strings.Count(r.Note, " of ") > 1 && !strings.Contains(c.want, "without an end") {
				t.Errorf("%s: some variants are no valid cases", r.Note)
			}
		})
	}
}
