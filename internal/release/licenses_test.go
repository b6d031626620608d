package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// TestLicensesOfLinkedModulesAreKnown reads the licenses of what prober links on each system.
func TestLicensesOfLinkedModulesAreKnown(t *testing.T) {
	r := release{source: "../..", goTool: "go"}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		modules, err := r.linked(goos, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		kinds := make(map[string]string)
		for _, m := range modules {
			path, _, _ := strings.Cut(m.name, " ")
			kinds[path] = strings.Join(m.kinds, " ")
		}
		for path, want := range map[string]string{
			"stdlib": "BSD-3-Clause", "github.com/tetratelabs/wazero": "Apache-2.0", "github.com/hashicorp/go-plugin": "MPL-2.0", "github.com/spf13/pflag": "BSD-3-Clause",
		} {
			if kinds[path] != want {
				t.Errorf("%s: %s has the license %q, want %q", goos, path, kinds[path], want)
			}
		}
		text, err := r.licensesText(modules)
		if err != nil {
			t.Fatal(err)
		}
		for _, sentence := range []string{"Alex Ogier", "The Rust Project Developers"} {
			if !strings.Contains(string(text), sentence) {
				t.Errorf("%s: the licenses do not contain %q", goos, sentence)
			}
		}
	}
}

func TestModuleWithoutKnownLicenseIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"none":    {"README", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software", "example.com/m v1.0.0 has no license"},
		"unknown": {"LICENSE", "GNU GENERAL PUBLIC LICENSE", "LICENSE is none of the known licenses"},
		"notice":  {"NOTICE.txt", "This product includes software.", "has no license"},
	} {
		dir := t.TempDir()
		clitest.WriteTree(t, dir, map[string]string{
			"go.mod":                   "module github.com/daeace23/prober\n\ngo 1.26\n\nrequire example.com/m v1.0.0\n\nreplace example.com/m => ./m\n",
			"cmd/prober/main.go":       "package main\n\nimport _ \"example.com/m\"\n\nfunc main() {}\n",
			"cmd/prober-probe/main.go": "package main\n\nfunc main() {}\n",
			"m/go.mod":                 "module example.com/m\n\ngo 1.26\n",
			"m/m.go":                   "package m\n",
		})
		if err := os.WriteFile(filepath.Join(dir, "m", c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := release{source: dir, goTool: "go"}
		want := strings.Replace(c.want, "example.com/m v1.0.0", "./m", 1)
		if _, err := r.linked("linux", "amd64"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %q", name, err, want)
		}
	}
}
