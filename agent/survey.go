package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
)

// survey is what plugin folders and prober.yaml have, at one moment.
type survey struct {
	found     []Admitted // that can be loaded, by all that is known without compiling them
	err       error      // all that is wrong
	shadows   []Shadowed
	shadowErr error
	files     []string // that it depends on, beside those in plugin folders
	total     uint64   // memory of all plugins
}

// survey reads what there is, and asks registries, again or where it is time to. Its error
// means that nothing can be said of any plugin.
func (s *handlerSet) survey(ctx context.Context, again bool) (*survey, error) {
	cfg := AdmissionConfig{ConfigFile: s.cfg.ConfigFile, LockFile: s.cfg.LockFile, Dev: s.cfg.DevPlugins}
	admission, err := NewAdmission(cfg)
	if err != nil {
		return nil, err
	}
	s.pull(ctx, admission, again)
	file := admission.Config()
	v := &survey{total: file.TotalMemory}
	v.found, v.err = admission.Find(s.cfg.PluginDirs, s.builtins)
	v.shadows, v.shadowErr = admission.Shadows()
	for _, key := range file.Trust.Keys {
		v.files = append(v.files, beside(cfg.ConfigFile, key))
	}
	for _, p := range file.Plugins {
		if p.Source != "" && !strings.Contains(p.Source, "://") {
			v.files = append(v.files, beside(cfg.ConfigFile, p.Source))
		}
	}
	for _, f := range v.found {
		if f.Manifest.Runtime != plugin.Nagios {
			continue
		}
		if path, _, _, err := process.CommandOf(f.Found); err == nil {
			v.files = append(v.files, path)
		}
	}
	return v, nil
}

// about returns what is wrong with the plugin called name, or with its file at path; nil
// when nothing is. path may be "".
func (v *survey) about(name, path string) error {
	var wrong []error
	for _, err := range leaves(v.err) {
		named, ok := errors.AsType[*pluginError](err)
		text := err.Error()
		switch {
		case ok && named.name == name:
		case strings.HasPrefix(text, fmt.Sprintf("plugin %q of ", name)): // two of one name
		case path != "" && (strings.Contains(text, path) || strings.Contains(text, filepath.Dir(path)+":")):
		default:
			continue
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// leaves returns the errors that err joins.
func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// isGone reports whether the file that a plugin was loaded from was taken away. A folder
// that cannot be read says nothing of what is in it.
func isGone(path string, dirs []string) bool {
	i := slices.IndexFunc(dirs, func(dir string) bool {
		rest, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rest)
	})
	if i < 0 {
		return true // it had a source of its own, which prober.yaml does not name any more
	}
	if _, err := os.ReadDir(dirs[i]); err != nil {
		return false
	}
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
