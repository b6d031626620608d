package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// AdmissionConfig is what an operator says of the plugins that may be loaded.
type AdmissionConfig struct {
	ConfigFile string // prober.yaml, with pins and trusted keys; "": none
	LockFile   string // prober.plugins.lock, which must name every plugin; "": none
	// Dev are paths of plugins under development, by name: each is loaded in the place of
	// the plugin of that name, and neither pin nor signature nor lock is asked for. A path is
	// of a module, or of a folder with a module of that name.
	Dev map[string]string
}

// Admission decides which plugins may be loaded.
type Admission struct {
	asked  AdmissionConfig
	file   *config.Agent
	policy *trust.Policy
	lock   *trust.Lock // nil: none
	pulled []Pulled    // by [Admission.Pull]
}

// underDevelopment is the state of a plugin that nothing was asked for.
const underDevelopment trust.State = "dev"

// Admitted is a plugin that may be loaded.
type Admitted struct {
	plugin.Found
	Verdict trust.Verdict
}

// pluginError says which plugin an error keeps from being loaded.
type pluginError struct {
	name string
	err  error
}

func (e *pluginError) Error() string { return e.err.Error() }
func (e *pluginError) Unwrap() error { return e.err }

// refusal is why one version of a plugin may not be loaded.
type refusal struct {
	path, digest string
	err          error
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

func refuse(f *plugin.Found, err error) error {
	return &refusal{f.Path, cmp.Or(f.Digest, plugin.Digest(f.Module)), err}
}

// NewAdmission reads what cfg names.
func NewAdmission(cfg AdmissionConfig) (*Admission, error) {
	a := &Admission{asked: cfg}
	var err error
	if a.file, err = loadConfig(cfg.ConfigFile); err != nil {
		return nil, err
	}
	if a.policy, err = TrustPolicy(cfg.ConfigFile, a.file); err != nil {
		return nil, err
	}
	if cfg.LockFile != "" {
		if a.lock, err = trust.ReadLock(cfg.LockFile); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Config returns what the file at ConfigFile says, or what holds without one.
func (a *Admission) Config() *config.Agent { return a.file }

// TrustPolicy reads the keys that cfg, the file at configFile, trusts.
func TrustPolicy(configFile string, cfg *config.Agent) (*trust.Policy, error) {
	files := make([]string, len(cfg.Trust.Keys))
	for i, file := range cfg.Trust.Keys {
		files[i] = beside(configFile, file)
	}
	keys, err := trust.ReadKeys(files)
	var policy *trust.Policy
	if err == nil {
		policy, err = trust.New(trust.Config{Keys: keys, Require: cfg.Trust.Require})
	}
	if err != nil {
		return nil, &plugin.FieldError{File: configFile, Line: max(cfg.Trust.Line, 1), Field: "trust", Err: err}
	}
	return policy, nil
}

// beside returns the path that file, which the file at configFile names, stands for.
func beside(configFile, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(configFile), file)
}

// Find returns the plugins of folders and of prober.yaml as the operator wants them:
// pinned, signed, locked and limited. taken are the names of built-in handlers. It runs
// no plugin. Those that may be loaded are returned along with the errors of the others.
func (a *Admission) Find(dirs, taken []string) ([]Admitted, error) {
	found, err := plugin.Find(dirs, taken...)
	bad, errs := leaves(err), []error(nil)
	found = slices.DeleteFunc(found, func(f plugin.Found) bool { return a.asked.Dev[f.Manifest.Name] != "" })
	for i, p := range a.file.Plugins {
		if a.asked.Dev[p.Name] != "" || p.Shadow {
			continue
		}
		_, err := place(&p, a.fetch, &found, taken)
		if at := unread(bad, p.Name); at >= 0 && errors.Is(err, errNowhere) {
			err = bad[at]
			bad = slices.Delete(bad, at, at+1)
		}
		if err != nil {
			errs = append(errs, &pluginError{p.Name, a.fieldError(i, err)})
		}
	}
	var all []Admitted
	for _, f := range found {
		verdict, err := a.Admit(&f)
		if err != nil {
			errs = append(errs, &pluginError{f.Manifest.Name, err})
			continue
		}
		all = append(all, Admitted{f, verdict})
	}
	for _, name := range slices.Sorted(maps.Keys(a.asked.Dev)) {
		f, err := a.develop(name, taken)
		if err != nil {
			errs = append(errs, &pluginError{name, fmt.Errorf("plugin-dev %s=%s: %w", name, a.asked.Dev[name], err)})
			continue
		}
		all = append(all, f)
	}
	return all, errors.Join(slices.Concat(bad, errs)...)
}

// unread returns which of errs is about a file or folder that is called like the plugin,
// and so should have been its; -1 for none.
func unread(errs []error, name string) int {
	return slices.IndexFunc(errs, func(err error) bool {
		found, ok := errors.AsType[*plugin.FindError](err)
		if !ok {
			return false
		}
		file := filepath.Base(found.Path)
		return file == name || file == name+".wasm" || strings.TrimSuffix(file, ".exe") == plugin.ProcessPrefix+name
	})
}

// Admit holds f to what the operator says of a plugin of its name. The bytes in f.Module
// are what it decides about, and what must be loaded.
func (a *Admission) Admit(f *plugin.Found) (trust.Verdict, error) {
	if err := a.Constrain(f); err != nil {
		return trust.Verdict{}, err
	}
	verdict, err := a.vouch(f)
	for i, p := range a.file.Plugins {
		if err == nil && p.Name == f.Manifest.Name && !p.Shadow {
			if err = a.covered(f, &p, verdict); err != nil {
				err = a.fieldError(i, err)
			}
		}
	}
	return verdict, err
}

// covered says what of f nobody vouches for, where somebody should. A signature and a lock
// are of all of it, and so is a source with a digest.
func (a *Admission) covered(f *plugin.Found, p *config.Plugin, verdict trust.Verdict) error {
	ref, remote := p.Reference()
	switch {
	case verdict.State == trust.Signed, a.lock != nil, ref.Digest != "", f.Beside == "":
		return nil
	case p.Digest != "" && p.Manifest == "":
		return fmt.Errorf("digest is of %s alone, and not of the manifest beside it: want manifest: %s as well, or a signature, or a lock", f.Path, f.Beside)
	case remote && p.Digest == "":
		return fmt.Errorf("%s is a program, which could do here whatever prober may: want digest and manifest, a source with @sha256:, or the signature of a trusted key", f.Path)
	}
	return nil
}

// vouch holds f to the lock and to the keys that are trusted.
func (a *Admission) vouch(f *plugin.Found) (trust.Verdict, error) {
	if a.lock != nil {
		if err := a.lock.Check(*f); err != nil {
			return trust.Verdict{}, refuse(f, err)
		}
	}
	verdict, err := a.policy.Check(*f)
	if err != nil {
		return verdict, refuse(f, &plugin.FieldError{
			File: a.asked.ConfigFile, Line: max(a.file.Trust.Line, 1), Field: "trust",
			Err: fmt.Errorf("plugin %q of %w", f.Manifest.Name, err),
		})
	}
	return verdict, nil
}

// Constrain is [Admission.Admit] without signatures and the lock.
func (a *Admission) Constrain(f *plugin.Found) error {
	a.allow(f)
	for i, p := range a.file.Plugins {
		if p.Name != f.Manifest.Name || p.Shadow {
			continue
		}
		if err := pinned(f, &p); err != nil {
			return refuse(f, a.fieldError(i, err))
		}
		constrain(f, &p)
	}
	return nil
}

// allow tells f from which folders it may run commands, and with which variables.
func (a *Admission) allow(f *plugin.Found) {
	f.Folders, f.Env = nil, nil
	if f.Manifest.Runtime == plugin.Nagios {
		f.Folders, f.Env = a.Folders(), a.file.Nagios.Env
	}
}

// Folders returns the folders from which the operator lets commands run.
func (a *Admission) Folders() (folders []string) {
	for _, folder := range a.file.Nagios.Folders {
		folders = append(folders, beside(a.asked.ConfigFile, folder))
	}
	return folders
}

// pinned holds f to the digest that p wants.
func pinned(f *plugin.Found, p *config.Plugin) error {
	if digest := plugin.Digest(f.Module); p.Digest != "" && p.Digest != digest {
		return fmt.Errorf("digest of %s is %s, want %s", f.Path, digest, p.Digest)
	}
	if p.Manifest != "" && p.Manifest != f.Beside {
		return fmt.Errorf("manifest of %s is %s, want %s", f.Path, cmp.Or(f.Beside, "inside"), p.Manifest)
	}
	return nil
}

// Shadowed is a plugin that is to run beside the one of its name.
type Shadowed struct {
	Admitted
	PromoteAfter config.PromoteAfter
}

// Shadows returns the plugins of prober.yaml that are to run beside others, along with
// the errors of those that may not be loaded.
func (a *Admission) Shadows() ([]Shadowed, error) {
	var all []Shadowed
	var errs []error
	for i, p := range a.file.Plugins {
		if !p.Shadow {
			continue
		}
		f, err := a.fetch(&p)
		if err == nil {
			if err = pinned(&f, &p); err != nil {
				err = refuse(&f, err)
			}
		}
		var verdict trust.Verdict
		if err == nil {
			a.allow(&f)
			constrain(&f, a.withDefaults(p))
			if verdict, err = a.vouch(&f); err == nil {
				err = a.covered(&f, &p, verdict)
			}
		}
		if err != nil {
			errs = append(errs, &pluginError{p.Name, a.fieldError(i, err)})
			continue
		}
		all = append(all, Shadowed{Admitted{f, verdict}, p.PromoteAfter})
	}
	return all, errors.Join(errs...)
}

// withDefaults fills in what the shadow p does not say from the plugin of its name.
func (a *Admission) withDefaults(p config.Plugin) *config.Plugin {
	i := slices.IndexFunc(a.file.Plugins, func(o config.Plugin) bool { return o.Name == p.Name && !o.Shadow })
	if i < 0 {
		return &p
	}
	base := &a.file.Plugins[i]
	if p.Grants == nil {
		p.Grants = base.Grants
	}
	p.Limits = cmp.Or(p.Limits, base.Limits)
	p.ErrorPolicy = cmp.Or(p.ErrorPolicy, base.ErrorPolicy)
	return &p
}

// constrain gives f what the operator says of it.
func constrain(f *plugin.Found, p *config.Plugin) {
	f.Grants, f.Limits = p.Grants, p.Limits
	if p.ErrorPolicy != "" {
		manifest := *f.Manifest
		manifest.ErrorPolicy = p.ErrorPolicy
		f.Manifest = &manifest
	}
}

// develop reads a plugin under development. Its grants and limits are the operator's.
func (a *Admission) develop(name string, taken []string) (Admitted, error) {
	if slices.Contains(taken, name) {
		return Admitted{}, errors.New("the name is taken by a built-in handler")
	}
	f, err := plugin.Read(developed(a.asked.Dev[name], name))
	if err != nil {
		return Admitted{}, err
	}
	if f.Manifest.Name != name {
		return Admitted{}, fmt.Errorf("its manifest calls the plugin %q", f.Manifest.Name)
	}
	a.allow(&f)
	for _, p := range a.file.Plugins {
		if p.Name == name && !p.Shadow {
			constrain(&f, &p)
		}
	}
	return Admitted{f, trust.Verdict{State: underDevelopment}}, nil
}

// developed returns the path of the plugin under development that path means. A folder
// without a plugin.yaml holds NAME.wasm.
func developed(path, name string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path
	}
	if _, err := os.Stat(filepath.Join(path, plugin.ManifestFile)); err == nil {
		return path
	}
	return filepath.Join(path, name+".wasm")
}

// fieldError places err at the i-th plugin of the file.
func (a *Admission) fieldError(i int, err error) error {
	return &plugin.FieldError{File: a.asked.ConfigFile, Line: a.file.Plugins[i].Line, Field: fmt.Sprintf("plugins[%d]", i), Err: err}
}
