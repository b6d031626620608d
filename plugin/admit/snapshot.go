package admit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// State is the decision about one plugin.
type State int

// The states of an [Entry].
const (
	Absent   State = iota // there is no such plugin
	Admitted              // it may be loaded
	Stale                 // it may be loaded, but its registry has another version, or did not answer
	Pending               // its registry has not answered yet
	Refused               // it may not be loaded
	Away                  // its registry is not available, and there is no copy of it
	Listed                // it is in a plugin folder but has not been read, since no probe uses it
)

// Entry is the decision about one plugin, or about one shadow. It is immutable.
type Entry struct {
	Name         string
	State        State
	Plugin       Plugin       // if Admitted or Stale, see [Plugin.WithCode]; if Listed, only its manifest and path
	PromoteAfter PromoteAfter // of a shadow
	Reason       error        // reason for Refused, Stale or Away
	// Rival is the error for a second plugin of the same name; nil if there is none.
	Rival error
}

// Loadable reports whether the plugin may be loaded.
func (e Entry) Loadable() bool { return e.State == Admitted || e.State == Stale }

// Snapshot is the decision about all plugins at one moment. It is immutable.
type Snapshot struct {
	// Number increases with each snapshot of a [Scanner].
	Number int
	// Config is the contents of prober.yaml.
	Config *config.Agent
	// Files are the files that the snapshot depends on, in addition to plugin folders, prober.yaml,
	// the lock and plugins under development.
	Files []string

	dirs             []string
	plugins, shadows map[string]Entry
	remote           []string // names of plugins in registries

	errs, shadowErrs []error
}

// ScannerConfig configures a [Scanner].
type ScannerConfig struct {
	Config
	PluginDirs []string
	Builtins   []string // names of built-in handlers, which no plugin may have
	Sources    *Sources
}

// Scanner takes snapshots. It is safe for concurrent use.
// See RATIONALE.md, "Why may a snapshot have a plugin without its code?"
type Scanner struct {
	cfg ScannerConfig

	mu     sync.Mutex
	scans  int
	lister plugin.Lister
	memory memory
}

// NewScanner returns a Scanner. It reads nothing.
func NewScanner(cfg ScannerConfig) *Scanner { return &Scanner{cfg: cfg} }

// Scan reads prober.yaml, the plugin folders, the lock and the keys, and uses the last answers of
// registries. It asks no registry. Its error concerns all plugins; errors of single plugins are in
// [Snapshot.Err].
func (s *Scanner) Scan() (*Snapshot, error) { return s.scan(everything, nil) }

// ScanFor is [Scanner.Scan], except that it reads only the plugins whose names are wanted, and the
// plugins that prober.yaml names. Others of plugin folders are [Listed]. It does not read a plugin again
// if its files have not changed since the last ScanFor: such a plugin has no code, see [Plugin.WithCode].
func (s *Scanner) ScanFor(wanted func(name string) bool) (*Snapshot, error) {
	return s.scan(wanted, &s.memory)
}

// Forget makes the next ScanFor read all plugins again. It waits until a running scan has ended.
func (s *Scanner) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lister = plugin.Lister{}
	s.memory.now = nil
}

func (s *Scanner) scan(wanted func(name string) bool, memory *memory) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	policy, err := New(s.cfg.Config)
	if err != nil {
		return nil, err
	}
	if err := policy.AgentConfig().CheckHandlers(s.cfg.ConfigFile, s.cfg.Builtins); err != nil {
		return nil, &ConfigError{err}
	}
	policy.lister, policy.memory = &s.lister, memory
	memory.begin(policy)
	policy.recall(s.cfg.Sources)
	s.scans++
	v := &Snapshot{
		Number: s.scans, Config: policy.AgentConfig(), dirs: s.cfg.PluginDirs,
		plugins: make(map[string]Entry), shadows: make(map[string]Entry),
	}
	v.addFiles(s.cfg.ConfigFile)
	found, others, err := policy.find(s.cfg.PluginDirs, s.cfg.Builtins, wanted)
	v.errs = addErrors(v.plugins, err)
	for _, l := range others {
		v.plugins[l.Name()] = Entry{Name: l.Name(), State: Listed, Plugin: Plugin{Found: plugin.Found{Manifest: l.Manifest(), Path: l.Path()}}}
	}
	for _, f := range found {
		name := f.Manifest.Name
		v.plugins[name] = Entry{Name: name, State: Admitted, Plugin: f, Rival: v.About(name, "")}
	}
	shadows, err := policy.Shadows()
	v.shadowErrs = addErrors(v.shadows, err)
	for _, f := range shadows {
		name := f.Manifest.Name
		v.shadows[name] = Entry{Name: name, State: Admitted, Plugin: f.Plugin, PromoteAfter: f.PromoteAfter}
	}
	v.addRemote(policy.pulled)
	return v, nil
}

// addFiles adds the files that prober.yaml names.
func (v *Snapshot) addFiles(configFile string) {
	for _, key := range v.Config.Trust.Keys {
		v.Files = append(v.Files, config.Beside(configFile, key))
	}
	for _, e := range v.Config.Plugins {
		if e.Source != "" && !strings.Contains(e.Source, "://") {
			v.Files = append(v.Files, config.Beside(configFile, e.Source))
		}
	}
}

// addErrors adds an entry for each plugin in err. It returns the errors that err joins, except those
// about plugins whose registry has not answered yet.
func addErrors(to map[string]Entry, err error) (errs []error) {
	for _, err := range joined.Errors(err) {
		named, ok := errors.AsType[*PluginError](err)
		if ok && errors.Is(err, ErrPending) {
			to[named.Name] = Entry{Name: named.Name, State: Pending}
			continue
		}
		if ok && errors.Is(err, oci.ErrUnavailable) {
			to[named.Name] = Entry{Name: named.Name, State: Away, Reason: err}
		} else if ok {
			to[named.Name] = Entry{Name: named.Name, State: Refused, Reason: err}
		} else if file, ok := errors.AsType[*plugin.FindError](err); ok && file.Unreadable {
			to[file.Name] = Entry{Name: file.Name, State: Refused, Reason: err}
		}
		errs = append(errs, err)
	}
	return errs
}

// addRemote marks entries as stale if the registry has another version, or did not answer.
func (v *Snapshot) addRemote(pulled []Pulled) {
	for _, r := range pulled {
		v.remote = append(v.remote, r.Name)
		of := v.plugins
		if r.Shadow {
			of = v.shadows
		}
		if e := of[r.Name]; e.State == Admitted && r.Err == nil && r.Stale != nil {
			e.State, e.Reason = Stale, r.Stale
			of[r.Name] = e
		}
	}
}

// Plugin returns the decision about the plugin called name.
func (v *Snapshot) Plugin(name string) Entry { return v.plugins[name] }

// Shadow returns the decision about the shadow of the plugin called name.
func (v *Snapshot) Shadow(name string) Entry { return v.shadows[name] }

// Plugins returns the decisions about all plugins, by name.
func (v *Snapshot) Plugins() []Entry {
	all := make([]Entry, 0, len(v.plugins))
	for _, name := range slices.Sorted(maps.Keys(v.plugins)) {
		all = append(all, v.plugins[name])
	}
	return all
}

// Names returns the names of all plugins and shadows, sorted.
func (v *Snapshot) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(v.plugins)), maps.Keys(v.shadows))
	slices.Sort(names)
	return slices.Compact(names)
}

// Remote reports for each plugin in a registry whether it, or its shadow, is [Stale].
func (v *Snapshot) Remote() map[string]bool {
	all := make(map[string]bool)
	for _, name := range v.remote {
		all[name] = v.plugins[name].State == Stale || v.shadows[name].State == Stale
	}
	return all
}

// IsPending reports whether there is a plugin whose registry has not answered yet.
func (v *Snapshot) IsPending() bool {
	for _, e := range v.plugins {
		if e.State == Pending {
			return true
		}
	}
	return false
}

// Err returns all errors of plugins and shadows, joined. A plugin whose registry has not answered
// yet is not an error.
func (v *Snapshot) Err() error { return errors.Join(slices.Concat(v.errs, v.shadowErrs)...) }

// About returns the errors about the plugin called name, or about its file at path. path may be
// "".
func (v *Snapshot) About(name, path string) error {
	var wrong []error
	for _, err := range v.errs {
		named, ofPlugin := errors.AsType[*PluginError](err)
		found, ofFile := errors.AsType[*plugin.FindError](err)
		if ofPlugin && named.Name == name || ofFile && found.Concerns(name, path) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// WithoutPlugin returns an error if there is a shadow called name but no plugin of that name.
func (v *Snapshot) WithoutPlugin(name string) error {
	shadow := v.shadows[name]
	if !shadow.Loadable() || v.plugins[name].State != Absent || v.About(name, "") != nil {
		return nil
	}
	return fmt.Errorf("plugin %q of %s: there is no plugin of that name for it to run beside", name, shadow.Plugin.Path)
}

// IsGone reports whether the file of a plugin was removed. It returns false if the folder of the
// file cannot be read.
func (v *Snapshot) IsGone(path string) bool {
	i := slices.IndexFunc(v.dirs, func(dir string) bool {
		rest, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rest)
	})
	if i < 0 {
		return true // it was a source in prober.yaml, which has been removed
	}
	if _, err := os.ReadDir(v.dirs[i]); err != nil {
		return false
	}
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// WithoutCode returns v without the bytes of modules and signatures, which may be large.
func (v *Snapshot) WithoutCode() *Snapshot {
	light := *v
	light.plugins, light.shadows = maps.Clone(v.plugins), maps.Clone(v.shadows)
	for _, of := range []map[string]Entry{light.plugins, light.shadows} {
		for name, e := range of {
			e.Plugin = e.Plugin.WithoutCode()
			of[name] = e
		}
	}
	return &light
}
