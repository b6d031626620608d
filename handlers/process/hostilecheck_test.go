package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/probe"
)

// TestArgumentCannotBeOption checks that config and target of a probe cannot add an option to the command.
func TestArgumentCannotBeOption(t *testing.T) {
	c := loadCheck(t, `[check_it, args, "{{config.a}}{{config.b}}", "{{target.host}}"]`, checkFolder(t))
	for _, config := range []string{
		`{"a": "-x", "b": ""}`, `{"a": "", "b": "-x"}`, `{"a": "-", "b": "x"}`, `{"a": "-inf", "b": ""}`, `{"a": "-Infinity", "b": ""}`,
		`{"a": "-0x1p4", "b": ""}`, `{"a": "-1", "b": "x"}`, `{"a": "", "b": "--"}`,
	} {
		if _, err := c.Prepare([]byte(config), probe.Target{}); err == nil || !strings.Contains(err.Error(), "begins with a dash: it would be taken for an option") {
			t.Errorf("%s: got %v", config, err)
		}
	}
	for _, config := range []string{`{"a": "-1.5e", "b": "-3"}`, `{"a": -7, "b": ""}`, `{"a": "x", "b": "-x"}`, `{"a": "-.5", "b": ""}`} {
		if _, err := c.Prepare([]byte(config), probe.Target{}); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
	h := prepareCheck(t, c, `{"a":"x","b":"y"}`)
	for _, host := range []string{"-x", "--help", "-inf", "-"} {
		if out, err := attemptOf(t, h, probe.Request{Attempt: 1, Target: probe.Target{Host: host}}, patience); err == nil {
			t.Errorf("host %q: %+v", host, out)
		}
	}
	for _, host := range []string{"a\x00b", "$(id)", "a b;id"} { // no shell interprets them
		out, err := attemptOf(t, h, probe.Request{Attempt: 1, Target: probe.Target{Host: host}}, patience)
		if err == nil && out.Output != "<xy><"+host+">" {
			t.Errorf("host %q: %+v", host, out)
		}
	}
}

// TestReplaceableCommandIsRefused checks that a program that others could replace does not run.
func TestReplaceableCommandIsRefused(t *testing.T) {
	mkdir := func(path string, mode os.FileMode) string {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := checkFolder(t)
	links := mkdir(filepath.Join(t.TempDir(), "links"), 0o777)
	if err := os.Symlink(filepath.Join(good, "check_it"), filepath.Join(links, "check_link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(links, "check_link"), filepath.Join(good, "check_far")); err != nil {
		t.Fatal(err)
	}
	open := mkdir(filepath.Join(t.TempDir(), "open"), 0o777)
	inside := mkdir(filepath.Join(open, "inside"), 0o755)
	if err := os.WriteFile(filepath.Join(inside, "check_it"), []byte(checkScript), 0o755); err != nil {
		t.Fatal(err)
	}
	sticky := mkdir(filepath.Join(t.TempDir(), "sticky"), 0o777|os.ModeSticky)
	safe := mkdir(filepath.Join(sticky, "safe"), 0o755)
	if err := os.WriteFile(filepath.Join(safe, "check_it"), []byte(checkScript), 0o755); err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(t.TempDir(), "way")
	if err := os.Symlink(good, way); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		folders []string
		want    string
	}{
		{"[check_link]", []string{links, good}, links + " is writable to others"},
		{"[check_far]", []string{good}, links + " is writable to others"},
		{"[check_it]", []string{inside}, open + " is writable to others"},
		{"[..]", []string{good}, "which is in none of the folders"},
		{"[.]", []string{good}, "which is in none of the folders"},
		{"[" + good + "/../" + filepath.Base(good) + "/check_it/..]", []string{good}, "is in none of the folders"},
		{"[" + filepath.Dir(good) + "/x/../../bin/sh]", []string{good}, "is in none of the folders"},
		{"[check_it]", []string{safe}, ""},
		{"[check_it]", []string{way}, ""}, // an allowed folder may be a link
	} {
		check, err := process.LoadCheck(process.Config{}, checkOf(t, c.command, c.folders...))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s of %s: %v", c.command, c.folders, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s of %s: got %v, want %s", c.command, c.folders, err, c.want)
		}
		if err == nil {
			_ = check.Close()
		}
	}
}

// TestMalformedOutput has output that violates the conventions.
func TestMalformedOutput(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf \"$1\"\n"
	if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := loadCheck(t, `[check_it, "{{config.out}}"]`, dir)
	for _, out := range []string{
		`ok | a=nan b=inf c=-inf d=1e999 e=0x10 f=`, `ok | =1 '=1 ''=1 'a'''=1 'a=1`, `| | | =`, `\\000\\377\\376 | \\377=1 a=\\377`,
		`ok | a=1;;;;;;;;;;;; a=2 a=1;~:@10 U=U`, `a=1|a=1\nlong\n|b=2`, `ok | ` + strings.Repeat("a=1 ", 10_000), ``,
	} {
		got, err := attempt(t, prepareCheck(t, c, `{"out":"`+out+`"}`), patience)
		if err != nil || got.Result != probe.Success || len(got.Metrics) > 64 {
			t.Errorf("%.60q: got %+v, %v", out, got.Result, err)
		}
		for _, m := range got.Metrics {
			if m.Name == "" || m.Value-m.Value != 0 {
				t.Errorf("%.60q: metric %+v", out, m)
			}
		}
	}
}
