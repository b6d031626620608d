package manifest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/daeace23/prober/pods/local/manifest"
)

func TestLoadReadsPipeOnce(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := write.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	source := &manifest.Source{Paths: []string{fmt.Sprintf("/dev/fd/%d", read.Fd())}}
	for range 2 {
		if loaded, err := source.Load(t.Context()); err != nil || len(loaded.Pods) != 1 {
			t.Errorf("got %d pods, %v, want 1", len(loaded.Pods), err)
		}
	}
}
