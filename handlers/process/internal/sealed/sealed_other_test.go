//go:build !linux

package sealed

import (
	"os"
	"strings"
	"testing"
)

func TestCheckOfChangedCopyIsError(t *testing.T) {
	c, err := New("tester", []byte("code"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(c.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path(), []byte("evil"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("got %v", err)
	}
}
