package plugintest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

const hostileRun = "conformance: peers that break the protocol"

// hostileGuest builds the module of testdata/hostile. Tests of it are skipped under the race detector, which make
// test-race does not run for this package.
func hostileGuest(t *testing.T) string {
	t.Helper()
	if race {
		t.Skip("hundreds of calls take minutes under the race detector")
	}
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
	module := hostileGuest(t)
	for _, c := range []struct{ check, want string }{
		{"good line", ""},
		{"good frame", ""},
		{"good clock", ""},
		{"good clock at a time", ""},
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

// A printed case, appended to its file, fails as the check did.
func TestHostilePeersPrintCasesThatReproduce(t *testing.T) {
	t.Parallel()
	module := hostileGuest(t)
	f := oneCase(t, "testdata/hostile/hostile_test.yaml", "short line")
	report := run(t, f, plugintest.Config{Plugin: module, Run: regexp.MustCompile(hostileRun), Patience: time.Minute})
	if len(report.Results[0].Cases) != 1 {
		t.Fatalf("%d cases", len(report.Results[0].Cases))
	}
	var table strings.Builder
	if err := plugintest.Write(&table, "table", []*plugintest.Report{report}); err != nil {
		t.Fatal(err)
	}
	item := report.Results[0].Cases[0]
	if want := "\nTo reproduce, append to the cases of " + f.Path + ":\n\n" + item; !strings.Contains(table.String(), want) {
		t.Errorf("no %q in the table:\n%s", want, table.String())
	}
	again := load(t, string(f.Text[strings.Index(string(f.Text), "- name"):])+item)
	results := run(t, again, plugintest.Config{Plugin: module, CasesOnly: true}).Results
	if len(results) != 2 || !results[0].OK() || results[1].OK() || !strings.Contains(results[1].Diff, "error(trap)") {
		t.Errorf("got %+v", results)
	}
}

// A printed case has a limit of memory, or says that it may pass.
func TestHostilePeersPrintRuleThatWantLacks(t *testing.T) {
	t.Parallel()
	module := hostileGuest(t)
	const comment = "# This case may pass before the plugin is mended: its want cannot express that "
	for _, c := range []struct{ check, want string }{
		{"not a number", "want: {result: failure}"},
		{"fails with Inf", comment + "each value is a number.\n"},
		{"trusts length", "memory: {max: "},
	} {
		f := oneCase(t, "testdata/hostile/hostile_test.yaml", c.check)
		r := run(t, f, plugintest.Config{Plugin: module, Run: regexp.MustCompile(hostileRun), Patience: time.Minute}).Results[0]
		if all := strings.Join(r.Cases, ""); !strings.Contains(all, c.want) || strings.Contains(all, comment) != strings.HasPrefix(c.want, comment) {
			t.Errorf("%s: no %q in %s", c.check, c.want, all)
		}
	}
}

// A check that passed runs again only if the plugin or its case changes.
func TestPassedChecksAreKept(t *testing.T) {
	t.Parallel()
	cfg := plugintest.Config{Plugin: hostileGuest(t), Run: regexp.MustCompile("conformance: (peers|.*agree)"), Patience: time.Minute, PassedDir: filepath.Join(t.TempDir(), "passed")}
	f := oneCase(t, "testdata/hostile/hostile_test.yaml", "good line")
	second := oneCase(t, "testdata/hostile/hostile_test.yaml", "good status")
	text := string(f.Text) + string(second.Text[strings.Index(string(second.Text), "- name"):])
	notes := func(text string) string {
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := plugintest.Load(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, r := range run(t, loaded, cfg).Results {
			all = append(all, regexp.MustCompile("^[0-9].*of 2 cases").ReplaceAllString(r.Note, "variants"))
			if !r.OK() {
				t.Errorf("%s: %q", r.Name, r.Failures)
			}
		}
		return strings.Join(all, ", ")
	}
	changed := strings.Replace(text, "JOBS 17", "JOBS 18", 1)
	changed = strings.Replace(changed, "17 jobs", "18 jobs", 1)
	for _, c := range []struct{ name, text, want string }{
		{"first run", text, ", variants"},
		{"nothing changes", text, "unchanged, variants; 2 unchanged"},
		{"one case changes", changed, ", variants; 1 unchanged"},
		{"again", changed, "unchanged, variants; 2 unchanged"},
	} {
		if got := notes(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	cfg.Again = true
	if got := notes(changed); got != ", variants" {
		t.Errorf("with Again: got %q", got)
	}
}

// A check that ended before its last variant runs again.
func TestPassedChecksAreComplete(t *testing.T) {
	t.Parallel()
	cfg := plugintest.Config{Plugin: hostileGuest(t), Run: regexp.MustCompile(hostileRun), PassedDir: filepath.Join(t.TempDir(), "passed")}
	f := oneCase(t, "testdata/hostile/hostile_test.yaml", "good line")
	for _, c := range []struct {
		patience time.Duration
		want     string // the note without its numbers
	}{
		{time.Nanosecond, "N of N variants of N case"},
		{time.Minute, "N variants of N case"},
		{time.Minute, "N variants of N case; N unchanged"},
	} {
		cfg.Patience = c.patience
		r := run(t, f, cfg).Results[0]
		if got := regexp.MustCompile("[0-9,]+").ReplaceAllString(r.Note, "N"); !r.OK() || got != c.want {
			t.Errorf("for %v: noted %q, want %q; %q", c.patience, r.Note, c.want, r.Failures)
		}
	}
}

// A manifest beside the module is part of the plugin.
func TestPassedChecksDependOnManifestBesideModule(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	manifest := func(more string) {
		text := "apiVersion: prober.dev/v1\nkind: Plugin\nname: small\nversion: 1.0.0\n" + more
		if err := os.WriteFile(filepath.Join(folder, "plugin.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	module := filepath.Join(folder, "small.wasm")
	if err := os.WriteFile(module, []byte(counting), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := plugintest.Config{Plugin: module, Run: regexp.MustCompile("agree"), PassedDir: filepath.Join(t.TempDir(), "passed")}
	f := load(t, "\n- {name: x, want: {result: success}}\n")
	for _, c := range []struct{ name, more, want string }{
		{"first run", "", ""},
		{"nothing changes", "", "unchanged"},
		{"the manifest changes", "config: {schema: {properties: {a: {type: string}}}}\n", ""},
	} {
		manifest(c.more)
		if r := run(t, f, cfg).Results[0]; !r.OK() || r.Note != c.want {
			t.Errorf("%s: noted %q, want %q; %q", c.name, r.Note, c.want, r.Failures)
		}
	}
}

// Fuzz finds a fault, and its file reproduces it.
func TestFuzzFindsFault(t *testing.T) {
	t.Parallel()
	module := hostileGuest(t)
	f := oneCase(t, "testdata/hostile/hostile_test.yaml", "short datagram")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	folder := t.TempDir()
	var found []plugintest.Finding
	n, err := plugintest.Fuzz(ctx, f, plugintest.FuzzConfig{
		Config: plugintest.Config{Plugin: module, CacheDir: cache}, Seed: 1, Folder: folder,
		Found: func(f plugintest.Finding) error {
			found = append(found, f)
			cancel()
			return nil
		},
	})
	if err != nil || len(found) != 1 || n == 0 {
		t.Fatalf("%d variants, found %+v, error %v", n, found, err)
	}
	path := filepath.Join(folder, "x_test.yaml")
	if err := os.WriteFile(path, []byte(found[0].File), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, err := plugintest.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	results := run(t, saved, plugintest.Config{CasesOnly: true}).Results
	if len(results) != 1 || !slices.Contains([]string{"error(trap)", "error(memory)"}, resultOf(results[0].Diff)) {
		t.Errorf("got %+v", results)
	}
}

// resultOf returns the actual result in a diff.
func resultOf(diff string) string {
	_, rest, _ := strings.Cut(diff, "+result: ")
	result, _, _ := strings.Cut(rest, "\n")
	return result
}

// A panic with the data of the peer is one cause, unless its message is all that is known of it.
func TestPanicsWithDataAreBounded(t *testing.T) {
	t.Parallel()
	module := hostileGuest(t)
	for _, c := range []struct {
		check string
		count int
		note  string
	}{
		{"panics quoting", 1, ""},
		{"panics at place", 1, ""},
		{"panics", plugintest.MaxFindings, "; stopped at 50 findings"},
	} {
		t.Run(c.check, func(t *testing.T) {
			f := oneCase(t, "testdata/hostile/hostile_test.yaml", c.check)
			r := run(t, f, plugintest.Config{Plugin: module, Run: regexp.MustCompile(hostileRun), Patience: time.Minute}).Results[0]
			if len(r.Failures) != c.count || !strings.HasSuffix(r.Note, "1 case"+c.note) {
				t.Errorf("%d findings, noted %q: %.500q", len(r.Failures), r.Note, r.Failures)
			}
		})
	}
	found := 0
	f := oneCase(t, "testdata/hostile/hostile_test.yaml", "panics")
	_, err := plugintest.Fuzz(t.Context(), f, plugintest.FuzzConfig{
		Config: plugintest.Config{Plugin: module, CacheDir: cache}, Seed: 1, Folder: t.TempDir(), Time: 5 * time.Minute,
		Found: func(plugintest.Finding) error { found++; return nil },
	})
	if err != nil || found != plugintest.MaxFindings {
		t.Errorf("fuzz found %d, %v", found, err)
	}
}

func TestFuzzNeedsCaseWithPeers(t *testing.T) {
	t.Parallel()
	f := load(t, "\n- {name: x, want: {result: success}}\n")
	_, err := plugintest.Fuzz(t.Context(), f, plugintest.FuzzConfig{Config: plugintest.Config{Plugin: written(t, trapping), CacheDir: cache}})
	if want := f.Path + ": no case that passes has peers that can be varied"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
