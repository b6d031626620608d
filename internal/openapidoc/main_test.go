package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/docs"
)

func TestDocumentIsCurrent(t *testing.T) {
	want, err := generate(typesDir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), docs.OpenAPI); diff != "" {
		t.Errorf("docs/openapi.json is not current: run `make docs` (-want +got)\n%s", diff)
	}
}

// Each enum must belong to an existing field.
func TestEnumsNameExistingFields(t *testing.T) {
	known, err := readComments(typesDir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range enums {
		if _, ok := known[name]; !ok {
			t.Errorf("there is no field %s", name)
		}
	}
}

func TestSchemaHasCommentsOfSource(t *testing.T) {
	text, err := generate(typesDir)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Description string
				Required    []string
				Properties  map[string]struct {
					Description string
					Deprecated  bool
				}
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	probe, status := document.Components.Schemas["ProbeStatus"], document.Components.Schemas["Status"]
	if probe.Description != "ProbeStatus is the status of a probe." || !strings.HasPrefix(probe.Properties["pausedUntil"].Description, "PausedUntil is when") {
		t.Errorf("got %+v", probe)
	}
	if !status.Properties["error"].Deprecated || status.Properties["message"].Deprecated {
		t.Errorf("got %+v", status)
	}
}

func TestReadCommentsOfNoFolderIsError(t *testing.T) {
	if _, err := readComments(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a; type"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readComments(dir); err == nil {
		t.Error("no error for a file that is not Go")
	}
}
