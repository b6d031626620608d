package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// testerProgram returns the plugin "tester", a program, which is built once.
var testerProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tester")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "tester")
	out, err := exec.Command("go", "build", "-o", path, "../../handlers/process/testdata/plugin").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	return program, errors.Join(err, os.RemoveAll(dir))
})

// tester FILE writes the plugin "tester".
func tester(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tester FILE")
	}
	program, err := testerProgram()
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, program, 0o755))
	ts.Check(os.Chmod(path, 0o755))
	ts.Check(os.Chmod(path+".yaml", 0o644))
}
