package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHandlersOfReleases checks that releases without handlers have the same pkg/probe as the required
// version.
func TestHandlersOfReleases(t *testing.T) {
	required, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, release := range releases {
		source, err := download(release.version)
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range handlers {
			want := sourcesOf(t, filepath.Join(strings.TrimSpace(string(required)), folder))
			if got := sourcesOf(t, filepath.Join(source, folder)); !release.handlers && !maps.Equal(got, want) {
				t.Errorf("release %s: %s differs from the required version", name, folder)
			}
		}
	}
}

// sourcesOf returns the files of a folder without "// +build" lines.
func sourcesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := sources(folder)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	for name, text := range files {
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "// +build ") {
				lines[i] = ""
			}
		}
		files[name] = strings.Join(lines, "")
	}
	return files
}

// TestOverlay makes the overlay of each release.
func TestOverlay(t *testing.T) {
	t.Chdir("..")
	for name := range releases {
		if _, err := overlay(name); err != nil {
			t.Error(err)
		}
	}
}
