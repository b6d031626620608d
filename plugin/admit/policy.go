package admit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// Config configures a [Policy].
type Config struct {
	ConfigFile string // prober.yaml, with pins and trusted keys; "" for none
	LockFile   string // prober.plugins.lock, which must name every plugin; "" for none
	// Dev are the paths of plugins under development, by name. Each replaces the plugin of that
	// name, without a check of pins, signatures or the lock. A path is of a module, or of a folder
	// with a module of that name.
	Dev map[string]string
	// Shipped are the plugins that are part of this program. Each is used if no folder and no source
	// of prober.yaml has a plugin of its name. Pins apply to them; signatures and the lock do not.
	Shipped []plugin.Found
}

// Policy decides which plugins may be loaded. It does not change after [New], except that
// [Policy.Pull] sets the plugins of registries.
type Policy struct {
	cfg    Config
	file   *config.Agent
	trust  *trust.Policy
	lock   *trust.Lock // nil for none
	pulled []Pulled
	lister *plugin.Lister // of the scanner; nil for none
	memory *memory        // of the scanner; nil for none
}

// Dev is the trust state of a plugin under development, which is not checked.
const Dev trust.State = "dev"

// Shipped is the trust state of a plugin that is part of this program.
const Shipped trust.State = "shipped"

// ConfigError is the error for a prober.yaml that cannot be used. It concerns all plugins. Errors of
// entries for single plugins are not ConfigErrors.
type ConfigError struct{ Err error }

// Error returns the text of e.Err.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err in a slice, as errors.Join does.
func (e *ConfigError) Unwrap() []error { return []error{e.Err} }

// New reads the files that cfg names. Its error is a [*ConfigError] if prober.yaml cannot be used.
func New(cfg Config) (*Policy, error) {
	p := &Policy{cfg: cfg, file: config.Default()}
	var err error
	if cfg.ConfigFile != "" {
		if p.file, err = config.Load(cfg.ConfigFile); err != nil {
			return nil, &ConfigError{err}
		}
	}
	if p.trust, err = TrustPolicy(cfg.ConfigFile, p.file); err != nil {
		return nil, err
	}
	if cfg.LockFile != "" {
		if p.lock, err = trust.ReadLock(cfg.LockFile); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// AgentConfig returns the contents of prober.yaml, or the defaults if there is no file.
func (p *Policy) AgentConfig() *config.Agent { return p.file }

// TrustPolicy returns a policy with the trusted keys of cfg, the contents of configFile.
func TrustPolicy(configFile string, cfg *config.Agent) (*trust.Policy, error) {
	files := make([]string, len(cfg.Trust.Keys))
	for i, file := range cfg.Trust.Keys {
		files[i] = config.Beside(configFile, file)
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

// Admit checks f against the pins, signatures and lock for a plugin of its name, and sets its
// grants and limits. It checks the bytes in f.Module, so the caller must load these bytes.
func (p *Policy) Admit(f *plugin.Found) (trust.Verdict, error) {
	if err := p.Constrain(f); err != nil {
		return trust.Verdict{}, err
	}
	if p.shipped(f) != nil {
		return trust.Verdict{State: Shipped}, nil
	}
	verdict, err := p.checkTrust(f)
	if i := p.entry(f.Manifest.Name); err == nil && i >= 0 {
		if err = p.covered(f, &p.file.Plugins[i], verdict); err != nil {
			err = p.fieldError(i, err)
		}
	}
	return verdict, err
}

// shipped returns the plugin of this program that equals f; nil if there is none.
func (p *Policy) shipped(f *plugin.Found) *plugin.Found {
	for i := range p.cfg.Shipped {
		if s := &p.cfg.Shipped[i]; s.Path == f.Path && s.Digest == f.ModuleDigest() && f.Beside == "" {
			return s
		}
	}
	return nil
}

// entry returns the index in prober.yaml of the plugin called name; -1 if it has no entry.
func (p *Policy) entry(name string) int {
	return slices.IndexFunc(p.file.Plugins, func(e config.Plugin) bool { return e.Name == name && !e.Shadow })
}

// admitShadow is [Policy.Admit] for the shadow that e configures.
func (p *Policy) admitShadow(f *plugin.Found, e *config.Plugin) (trust.Verdict, error) {
	if err := pinned(f, e); err != nil {
		return trust.Verdict{}, refuse(f, err)
	}
	p.allowCommands(f)
	constrain(f, p.withDefaults(*e))
	verdict, err := p.checkTrust(f)
	if err == nil {
		err = p.covered(f, e, verdict)
	}
	return verdict, err
}

// Constrain is [Policy.Admit] without signatures and the lock.
func (p *Policy) Constrain(f *plugin.Found) error {
	p.allowCommands(f)
	i := p.entry(f.Manifest.Name)
	if i < 0 {
		return nil
	}
	if err := pinned(f, &p.file.Plugins[i]); err != nil {
		return refuse(f, p.fieldError(i, err))
	}
	constrain(f, &p.file.Plugins[i])
	return nil
}

// covered returns an error if a part of f that must be checked is not. A signature, a lock and a
// source with a digest cover all of f.
func (p *Policy) covered(f *plugin.Found, e *config.Plugin, verdict trust.Verdict) error {
	ref, remote := e.Reference()
	switch {
	case verdict.State == trust.Signed, p.lock != nil, ref.Digest != "", f.Beside == "":
		return nil
	case e.Digest != "" && e.Manifest == "":
		return fmt.Errorf("the digest covers %s alone, and not the manifest beside it: set manifest: %s too, or use a signature or a lock", f.Path, f.Beside)
	case remote && e.Digest == "":
		return fmt.Errorf("%s is a program, which runs with all permissions of prober: it needs digest and manifest, a source with @sha256:, or the signature of a trusted key", f.Path)
	}
	return nil
}

// checkTrust checks f against the lock and the trusted keys.
func (p *Policy) checkTrust(f *plugin.Found) (trust.Verdict, error) {
	if p.lock != nil {
		if err := p.lock.Check(*f); err != nil {
			return trust.Verdict{}, refuse(f, err)
		}
	}
	verdict, err := p.trust.Check(*f)
	if err != nil {
		return verdict, refuse(f, &plugin.FieldError{
			File: p.cfg.ConfigFile, Line: max(p.file.Trust.Line, 1), Field: "trust",
			Err: fmt.Errorf("plugin %q of %w", f.Manifest.Name, err),
		})
	}
	return verdict, nil
}

// allowCommands sets the folders from which f may run commands, and their variables.
func (p *Policy) allowCommands(f *plugin.Found) {
	f.Folders, f.Env = nil, nil
	if f.Manifest.Runtime == plugin.Nagios {
		f.Folders, f.Env = p.Folders(), p.file.Nagios.Env
	}
}

// Folders returns the folders from which the operator allows commands to run.
func (p *Policy) Folders() (folders []string) {
	for _, folder := range p.file.Nagios.Folders {
		folders = append(folders, config.Beside(p.cfg.ConfigFile, folder))
	}
	return folders
}

// pinned checks f against the digests of e.
func pinned(f *plugin.Found, e *config.Plugin) error {
	if e.Digest != "" && e.Digest != f.ModuleDigest() {
		return fmt.Errorf("digest of %s is %s, must be %s", f.Path, f.ModuleDigest(), e.Digest)
	}
	if e.Manifest != "" && e.Manifest != f.Beside {
		return fmt.Errorf("manifest of %s is %s, must be %s", f.Path, cmp.Or(f.Beside, "inside"), e.Manifest)
	}
	return nil
}

// constrain sets the grants, limits and error policy of f from e.
func constrain(f *plugin.Found, e *config.Plugin) {
	f.Grants, f.Limits = e.Grants, e.Limits
	if e.ErrorPolicy != "" {
		manifest := *f.Manifest
		manifest.ErrorPolicy = e.ErrorPolicy
		f.Manifest = &manifest
	}
}

// withDefaults returns the shadow e. Its unset grants, limits and error policy are taken from the entry
// of its plugin.
func (p *Policy) withDefaults(e config.Plugin) *config.Plugin {
	i := p.entry(e.Name)
	if i < 0 {
		return &e
	}
	base := &p.file.Plugins[i]
	if e.Grants == nil {
		e.Grants = base.Grants
	}
	e.Limits = cmp.Or(e.Limits, base.Limits)
	e.ErrorPolicy = cmp.Or(e.ErrorPolicy, base.ErrorPolicy)
	return &e
}

// fieldError returns err with the position of the i-th plugin of prober.yaml.
func (p *Policy) fieldError(i int, err error) error {
	return &plugin.FieldError{File: p.cfg.ConfigFile, Line: p.file.Plugins[i].Line, Field: fmt.Sprintf("plugins[%d]", i), Err: err}
}
