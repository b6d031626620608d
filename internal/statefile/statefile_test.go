package statefile_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/statefile"
)

type content struct {
	Version int    `json:"version"`
	Text    string `json:"text"`
}

func TestLoadKeepsWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct{ text, err string }{
		"no JSON":       {"x", "invalid character"},
		"cut":           {`{"version":1,"text":"a`, "unexpected end of JSON"},
		"newer version": {`{"version":2,"text":"a"}`, "unknown version 2"},
		"other type":    {`{"version":1,"text":5}`, "cannot unmarshal number"},
		"too large":     {strings.Repeat(" ", 101), "more than 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path, log := filepath.Join(t.TempDir(), "state.json"), new(bytes.Buffer)
			f := statefile.File{Path: path, Version: 1, Max: 100, Log: slog.New(slog.NewTextHandler(log, nil)), Lost: "all is lost"}
			for _, text := range []string{"an older one", c.text} { // there is one copy, of the newest file
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				log.Reset()
				if f.Load(new(content)) {
					t.Error("it was loaded")
				}
			}
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="all is lost"`) || !strings.Contains(got, c.err) || !strings.Contains(got, "kept="+path+".unreadable") {
				t.Errorf("log: %s", got)
			}
			if err := f.Save(content{1, "next"}); err != nil {
				t.Fatal(err)
			}
			if kept, err := os.ReadFile(path + statefile.Suffix); string(kept) != c.text || err != nil {
				t.Errorf("kept %q, %v", kept, err)
			}
			var next content
			if log.Reset(); !f.Load(&next) || next.Text != "next" || log.Len() > 0 {
				t.Errorf("loaded %+v, log %s", next, log)
			}
			if files, err := os.ReadDir(filepath.Dir(path)); len(files) != 2 || err != nil {
				t.Errorf("files: %v, %v", files, err)
			}
		})
	}
}

// TestLoadKeepsEarlierCopy has an empty file, as a power cut may leave it, which must not replace a kept one.
func TestLoadKeepsEarlierCopy(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "state.json"), new(bytes.Buffer)
	for name, text := range map[string]string{path + statefile.Suffix: "an older one", path: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := statefile.File{Path: path, Version: 1, Log: slog.New(slog.NewTextHandler(log, nil)), Lost: "all is lost"}
	if f.Load(new(content)) || !strings.Contains(log.String(), "all is lost") {
		t.Errorf("log: %s", log)
	}
	if kept, err := os.ReadFile(path + statefile.Suffix); string(kept) != "an older one" || err != nil {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestLoadOfMissingFile(t *testing.T) {
	log := new(bytes.Buffer)
	f := statefile.File{Path: filepath.Join(t.TempDir(), "none"), Version: 1, Log: slog.New(slog.NewTextHandler(log, nil))}
	if f.Load(new(content)) || log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

func TestSaveRefusesWhatLoadWouldRefuse(t *testing.T) {
	f := statefile.File{Path: filepath.Join(t.TempDir(), "state.json"), Version: 1, Max: 100, Log: slog.New(slog.DiscardHandler)}
	if err := f.Save(content{1, "small"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(content{1, strings.Repeat("x", 100)}); err == nil || !strings.Contains(err.Error(), "at most 100 can be read again") {
		t.Errorf("error %v", err)
	}
	var c content
	if !f.Load(&c) || c.Text != "small" {
		t.Errorf("loaded %+v", c)
	}
}

func TestFileThatCannotBeKept(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "state.json"), new(bytes.Buffer)
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path+statefile.Suffix, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := statefile.File{Path: path, Version: 1, Log: slog.New(slog.NewTextHandler(log, nil)), Lost: "all is lost"}
	if f.Load(new(content)) || !strings.Contains(log.String(), "notKept=") {
		t.Errorf("log: %s", log)
	}
}
