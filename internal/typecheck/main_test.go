package main

import (
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		platform string
		want     string // part of the error; "" for none
	}{
		"constant fits an int of 64 bits": {
			files: map[string]string{"a.go": "package a\n\nvar N int = 1 << 40\n"}, platform: "linux/s390x",
		},
		"constant overflows an int of 32 bits": {
			files: map[string]string{"a.go": "package a\n\nvar N int = 1 << 40\n"}, platform: "linux/arm",
			want: "a.go:3:13: cannot use 1 << 40",
		},
		"constant in a body overflows": {
			files: map[string]string{"a.go": "package a\n\nfunc F() int { return 1 << 40 }\n"}, platform: "linux/386",
			want: "a.go:3:23: cannot use 1 << 40",
		},
		"test overflows": {
			files:    map[string]string{"a.go": "package a\n", "a_test.go": "package a\n\nvar n int = 1 << 40\n"},
			platform: "linux/arm", want: "a_test.go:3:13: cannot use 1 << 40",
		},
		"external test overflows": {
			files:    map[string]string{"a.go": "package a\n", "a_test.go": "package a_test\n\nvar n int = 1 << 40\n"},
			platform: "linux/arm", want: "a_test.go:3:13: cannot use 1 << 40",
		},
		"external test uses what tests export": {
			files: map[string]string{
				"a.go": "package a\n\nvar n = 1\n", "export_test.go": "package a\n\nvar N = n\n",
				"a_test.go": "package a_test\n\nimport \"own/a\"\n\nvar _ = a.N\n",
			},
			platform: "linux/arm",
		},
		"file of another processor is left out": {
			files: map[string]string{"a.go": "package a\n", "a_amd64.go": "package a\n\nvar n int = \"\"\n"}, platform: "linux/arm",
		},
		"function is defined for another processor alone": {
			files:    map[string]string{"a.go": "package a\n\nvar N = f()\n", "a_amd64.go": "package a\n\nfunc f() int { return 1 }\n"},
			platform: "linux/arm", want: "a.go:3:9: undefined: f",
		},
		"assembly is for another processor alone": {
			files:    map[string]string{"a.go": "package a\n\nfunc f()\n", "a_amd64.s": ""},
			platform: "linux/arm", want: "a.go:3:1: f has no body",
		},
		"assembly is for this processor": {
			files: map[string]string{"a.go": "package a\n\nfunc f()\n", "a_arm.s": ""}, platform: "linux/arm",
		},
		"dependencies are checked": {
			files: map[string]string{"a.go": "package a\n\nimport (\n\t\"net/http\"\n\t\"slices\"\n)\n\nvar C = slices.Clone([]http.Client{})\n"}, platform: "linux/riscv64",
		},
		"dependency has not what is used": {
			files:    map[string]string{"a.go": "package a\n\nimport \"syscall\"\n\nvar N = syscall.SYS_OPEN\n"},
			platform: "linux/riscv64", want: "a.go:5:17: undefined: syscall.SYS_OPEN",
		},
		"later version of Go": {
			files:    map[string]string{"go.mod": "module own/a\n\ngo 1.20\n", "a.go": "package a\n\nfunc F() {\n\tfor range 3 {\n\t}\n}\n"},
			platform: "linux/arm", want: "requires go1.22",
		},
		"file is no Go": {
			files: map[string]string{"a.go": "package a\n\nfunc {\n"}, platform: "linux/arm", want: "a.go:3:6",
		},
		"package is missing": {
			files: map[string]string{"a.go": "package a\n\nimport \"own/a/b\"\n\nvar _ = b.N\n"}, platform: "linux/arm", want: "go list",
		},
		"unknown processor": {files: map[string]string{"a.go": "package a\n"}, platform: "linux/z80", want: `unknown processor "z80"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"go.mod": "module own/a\n\ngo 1.24\n"}
			maps.Copy(files, c.files)
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			checker := checker{dir: dir, fset: token.NewFileSet(), files: map[string]*source{}}
			switch err := checker.check(c.platform); {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
