package cli_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// A pipe, as in `prober validate <(generate)`, can be read only once.
func TestValidateReadsDescriptor(t *testing.T) {
	for text, want := range map[string]int{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n": 0,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nnonsense: 1\n":                     1,
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write.WriteString(text); err != nil {
			t.Fatal(err)
		}
		write.Close()
		path := fmt.Sprintf("/dev/fd/%d", read.Fd())
		code, stdout, stderr := clitest.Run(nil, "validate", path)
		if code != want {
			t.Errorf("%q: exit code %d, want %d; %s%s", text, code, want, stdout, stderr)
		}
		read.Close()
	}
}
