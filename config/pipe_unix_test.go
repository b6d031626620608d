//go:build unix

package config_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/config"
)

func TestLoadPipeDoesNotBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prober.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.HasSuffix(err.Error(), "prober.yaml is not a regular file, and is empty or was already read") {
		t.Errorf("got %v", err)
	}
}
