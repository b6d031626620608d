package agent

import (
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
	number    int        // of this one
	found     []Admitted // that can be loaded, by all that is known without compiling them
	err       error      // all that is wrong
	shadows   []Shadowed
	shadowErr error
	files     []string // that it depends on, beside those in plugin folders
	total     uint64   // memory of all plugins
	secrets   secretPolicy
	pulled    []Pulled

	waiting, waitingShadows map[string]bool // those whose registry has not answered yet
}

// survey reads what there is, and what registries have said. Its error means that nothing
// can be said of any plugin.
func (s *handlerSet) survey() (*survey, error) {
	s.surveying.Lock()
	defer s.surveying.Unlock()
	v, err := newSurvey(&s.cfg, s.builtins, s.sources)
	if err != nil {
		return nil, err
	}
	for _, f := range v.found {
		if f.Manifest.Runtime != plugin.Nagios {
			continue
		}
		if path, _, _, err := process.CommandOf(f.Found); err == nil {
			v.files = append(v.files, path)
		}
	}
	s.take(v)
	return v, nil
}

// newSurvey reads what prober.yaml, plugin folders, the lock and keys say, and what
// registries have said. It runs nothing.
func newSurvey(cfg *Config, builtins []string, from *Sources) (*survey, error) {
	admission, err := NewAdmission(cfg.admission())
	if err != nil {
		return nil, err
	}
	admission.recall(from)
	file := admission.Config()
	v := &survey{total: file.TotalMemory, secrets: secretPolicyOf(cfg.ConfigFile, file), pulled: admission.pulled, waiting: make(map[string]bool), waitingShadows: make(map[string]bool)}
	v.found, v.err = admission.Find(cfg.PluginDirs, builtins)
	v.shadows, v.shadowErr = admission.Shadows()
	v.err, v.shadowErr = putOff(v.err, v.waiting), putOff(v.shadowErr, v.waitingShadows)
	for _, key := range file.Trust.Keys {
		v.files = append(v.files, beside(cfg.ConfigFile, key))
	}
	for _, p := range file.Plugins {
		if p.Source != "" && !strings.Contains(p.Source, "://") {
			v.files = append(v.files, beside(cfg.ConfigFile, p.Source))
		}
	}
	return v, nil
}

func (c *Config) admission() AdmissionConfig {
	return AdmissionConfig{ConfigFile: c.ConfigFile, LockFile: c.LockFile, Dev: c.DevPlugins}
}

// take notes what a survey says of all plugins together.
func (s *handlerSet) take(v *survey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.surveys++
	v.number = s.surveys
	s.watched, s.waiting, s.refused, s.refusedShadows = v.files, v.waiting, byName(v.err), byName(v.shadowErr)
	s.stale, s.staleShadows, s.sourced = make(map[string]error), make(map[string]error), make(map[string]bool)
	for _, r := range v.pulled {
		s.noteStaleLocked(&r)
	}
	s.metrics.PluginSources(s.staleLocked())
	s.otherSecrets = s.otherSecrets || !slices.Equal(s.secrets.allow, v.secrets.allow)
	s.secrets = v.secrets
	if s.total == v.total {
		return
	}
	if s.total, s.resized = v.total, true; s.host != nil {
		s.host.SetTotalMemory(v.total)
	}
}

// wasResized reports whether there is another totalMemory since it was last asked, whoever
// has seen that first: what found no room may find some.
func (s *handlerSet) wasResized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	resized := s.resized
	s.resized = false
	return resized
}

// byName returns the errors that err joins by the name of the plugin that they are about.
func byName(err error) map[string]error {
	all := make(map[string]error)
	for _, err := range leaves(err) {
		if named, ok := errors.AsType[*pluginError](err); ok {
			all[named.name] = err
		}
	}
	return all
}

// putOff takes those errors out of err that only say that a registry has not answered yet,
// and notes whose they are.
func putOff(err error, waiting map[string]bool) error {
	var rest []error
	for _, err := range leaves(err) {
		if named, ok := errors.AsType[*pluginError](err); ok && errors.Is(err, errNotAsked) {
			waiting[named.name] = true
			continue
		}
		rest = append(rest, err)
	}
	return errors.Join(rest...)
}

// names returns the names of all plugins that were found, or are to run beside one.
func (v *survey) names() (names []string) {
	for _, f := range v.found {
		names = append(names, f.Manifest.Name)
	}
	for _, f := range v.shadows {
		if !slices.Contains(names, f.Manifest.Name) {
			names = append(names, f.Manifest.Name)
		}
	}
	return names
}

func (v *survey) plugin(name string) (f Admitted, ok bool) {
	i := slices.IndexFunc(v.found, func(f Admitted) bool { return f.Manifest.Name == name })
	if i < 0 {
		return Admitted{}, false
	}
	return v.found[i], true
}

func (v *survey) shadow(name string) (f Shadowed, ok bool) {
	i := slices.IndexFunc(v.shadows, func(f Shadowed) bool { return f.Manifest.Name == name })
	if i < 0 {
		return Shadowed{}, false
	}
	return v.shadows[i], true
}

// alone is lonely of a plugin of which nothing is known, unless that is told already.
func (v *survey) alone(name string) error {
	if _, here := v.plugin(name); here || v.waiting[name] || v.about(name, "") != nil {
		return nil
	}
	return v.lonely(name)
}

// lonely is an error where there is a shadow of a plugin that there is not.
func (v *survey) lonely(name string) error {
	f, ok := v.shadow(name)
	if !ok {
		return nil
	}
	return fmt.Errorf("plugin %q of %s: there is no plugin of that name for it to run beside", name, f.Path)
}

// about returns what is wrong with the plugin called name, or with its file at path; nil
// when nothing is. path may be "".
func (v *survey) about(name, path string) error {
	var wrong []error
	for _, err := range leaves(v.err) {
		named, ofPlugin := errors.AsType[*pluginError](err)
		found, ofFile := errors.AsType[*plugin.FindError](err)
		if ofPlugin && named.name == name || ofFile && found.Concerns(name, path) {
			wrong = append(wrong, err)
		}
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
