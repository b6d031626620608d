package main

import (
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"
)

// tester FILE builds the plugin "tester", a program, as FILE.
func tester(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tester FILE")
	}
	path := ts.MkAbs(args[0])
	out, err := exec.Command("go", "build", "-o", path, "../../handlers/process/testdata/plugin").CombinedOutput()
	if err != nil {
		ts.Fatalf("%v\n%s", err, out)
	}
	ts.Check(os.Chmod(path, 0o755))
	ts.Check(os.Chmod(path+".yaml", 0o644))
}
