package plugintest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/statefile"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// maxPassedAge is the age at which the file of a test file that nobody runs is removed.
const maxPassedAge = 30 * 24 * time.Hour

// passed has the checks of a test file that passed with the same plugin, cases and program.
type passed struct {
	path   string // "" if nothing is kept
	plugin string // digest of the plugin, its manifest, the program and the settings
	before map[string]string
	now    map[string]string // notes of the checks that passed, by the digest of their inputs
}

// passedDoc is the contents of a file in [Config.PassedDir].
type passedDoc struct {
	Plugin string            `json:"plugin"`
	Passed map[string]string `json:"passed"`
}

const maxPassedFile = 4 << 20 // bytes

// openPassed reads the checks that passed before with a module and the text of the manifest beside it. A file
// that cannot be read has none.
func openPassed(cfg *Config, f *File, module, manifest []byte) *passed {
	p := &passed{now: make(map[string]string)}
	path, err := filepath.Abs(f.Path)
	if cfg.PassedDir == "" || err != nil {
		return p
	}
	p.path = filepath.Join(cfg.PassedDir, digest(path)+".json")
	p.plugin = digest(module, manifest, cfg.Version, program(), cfg.Interpreter, cfg.Checks, cfg.Strict)
	data, err := statefile.Read(p.path, maxPassedFile)
	var doc passedDoc
	if err == nil && json.Unmarshal(data, &doc) == nil && doc.Plugin == p.plugin && !cfg.Again {
		p.before = doc.Passed
	}
	return p
}

// program identifies the running program: the check of a new build may find more.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
}

func digest(inputs ...any) string {
	h := sha256.New()
	for _, in := range inputs {
		data, ok := in.([]byte)
		if !ok {
			data = fmt.Append(nil, in)
		}
		fmt.Fprintf(h, "%d ", len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// note returns the note of a check that passed before with the same inputs.
func (p *passed) note(inputs string) (note string, ok bool) {
	if note, ok = p.before[inputs]; ok {
		p.now[inputs] = note
	}
	return note, ok
}

// add adds a check that passed.
func (p *passed) add(inputs, note string) { p.now[inputs] = note }

// write keeps the checks that passed. Without it, they run again. all reports whether every check was run: unused entries are
// then dropped.
func (p *passed) write(all bool) error {
	if p.path == "" {
		return nil
	}
	if !all {
		maps.Copy(p.now, p.before)
	}
	dir := filepath.Dir(p.path)
	if err := ownership.PrivateDir(dir); err != nil {
		return err
	}
	removeOld(dir)
	data, err := json.Marshal(passedDoc{p.plugin, p.now})
	if err != nil {
		return err
	}
	return regular.ReplaceBytes(p.path, 0o600, data)
}

// removeOld removes files that nothing has used for a long time.
func removeOld(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeType == 0 && time.Since(info.ModTime()) > maxPassedAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// fingerprint returns a digest of everything that a run of a case depends on, beside the plugin.
func fingerprint(e *testfile.Editor, f *File, index int) (string, error) {
	item, err := e.Item(index)
	if err != nil {
		return "", err
	}
	testfile.SetField(item, "name", nil)
	text, err := encoded([]*yamlpos.Node{item})
	c := &f.Cases[index]
	return digest(index, text, c.Timeout, c.Grants, c.Accepts), err
}

// fingerprints returns the fingerprints of all cases. A file without cases may have no text.
func fingerprints(f *File) ([]string, error) {
	if len(f.Cases) == 0 {
		return nil, nil
	}
	e, err := testfile.NewEditor(f)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(f.Cases))
	for i := range f.Cases {
		if all[i], err = fingerprint(e, f, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}
