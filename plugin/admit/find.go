package admit

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
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// Plugin is a plugin that may be loaded.
type Plugin struct {
	plugin.Found
	Verdict trust.Verdict

	memory  *memory       // cache of the scanner; nil for none
	shipped *plugin.Found // the same plugin with its code, if it is part of this program
}

// WithoutCode returns p without the bytes of its module and signatures, which may be large.
func (p Plugin) WithoutCode() Plugin {
	p.Found = p.Found.WithoutCode()
	return p
}

// WithCode returns p with its module, which it reads if [Scanner.ScanFor] did not. It returns an error
// if the files have changed since they were verified. The next ScanFor then reads the plugin again.
func (p Plugin) WithCode() (Plugin, error) {
	if p.Module != nil {
		return p, nil
	}
	if p.shipped != nil {
		found, err := p.Found.WithCode(*p.shipped)
		p.Found = found
		return p, err
	}
	path := p.Path
	now, err := plugin.Read(path)
	if err == nil {
		p.Found, err = p.Found.WithCode(now)
	}
	if err != nil {
		p.memory.forget(path)
	}
	return p, err
}

// PromoteAfter is the condition for a shadow to replace the plugin.
type PromoteAfter = config.PromoteAfter

// Shadow is a plugin that may run beside the one of its name.
type Shadow struct {
	Plugin
	PromoteAfter PromoteAfter
}

var errNotFound = errors.New("is in none of the plugin folders")

// Find returns the loadable plugins of folders and of prober.yaml, along with the errors of the
// others. taken are the names of built-in handlers. It runs no plugin.
func (p *Policy) Find(dirs, taken []string) ([]Plugin, error) {
	all, _, err := p.find(dirs, taken, everything)
	return all, err
}

func everything(string) bool { return true }

// find is [Policy.Find], except that it reads only the plugins whose names are wanted, and the plugins
// of prober.yaml. others are the plugins that it did not read.
func (p *Policy) find(dirs, taken []string, wanted func(name string) bool) (all []Plugin, others []plugin.Listed, err error) {
	found, others, errs := p.read(dirs, taken, wanted)
	for _, f := range found {
		verdict, err := p.admitOnce(&f)
		if err != nil {
			errs = append(errs, &PluginError{f.Manifest.Name, err})
			continue
		}
		all = append(all, Plugin{f, verdict, p.memory, p.shipped(&f)})
	}
	for _, name := range slices.Sorted(maps.Keys(p.cfg.Dev)) {
		f, err := p.develop(name, taken)
		if err != nil {
			errs = append(errs, &PluginError{name, fmt.Errorf("plugin-dev %s=%s: %w", name, p.cfg.Dev[name], err)})
			continue
		}
		all = append(all, f)
	}
	return all, others, errors.Join(errs...)
}

// read returns the plugins of folders and of prober.yaml, before admission. others are the plugins
// that are not wanted. It leaves out plugins under development.
func (p *Policy) read(dirs, taken []string, wanted func(name string) bool) (found []plugin.Found, others []plugin.Listed, errs []error) {
	listed, err := cmp.Or(p.lister, new(plugin.Lister)).List(dirs, taken...)
	bad := joined.Errors(err)
	for _, l := range listed {
		switch name := l.Name(); {
		case p.cfg.Dev[name] != "":
			continue
		case p.entry(name) < 0 && !wanted(name):
			others = append(others, l)
			continue
		}
		f, err := p.readListed(l)
		if err != nil {
			bad = append(bad, joined.Errors(err)...)
			continue
		}
		found = append(found, f)
	}
	found = p.addShipped(found, others, bad)
	for i, e := range p.file.Plugins {
		if p.cfg.Dev[e.Name] != "" || e.Shadow {
			continue
		}
		err := p.addSource(&e, &found, taken)
		if at := errorOf(bad, e.Name); at >= 0 && errors.Is(err, errNotFound) {
			err = bad[at]
			bad = slices.Delete(bad, at, at+1)
		}
		if err != nil {
			errs = append(errs, &PluginError{e.Name, p.fieldError(i, err)})
		}
	}
	return found, others, append(bad, errs...)
}

// addShipped adds each plugin of this program, unless there is another one of its name, even a broken
// one.
func (p *Policy) addShipped(found []plugin.Found, others []plugin.Listed, bad []error) []plugin.Found {
	for _, f := range p.cfg.Shipped {
		name := f.Manifest.Name
		i := p.entry(name)
		switch {
		case p.cfg.Dev[name] != "", i >= 0 && p.file.Plugins[i].Source != "", errorOf(bad, name) >= 0:
		case slices.ContainsFunc(found, func(f plugin.Found) bool { return f.Manifest.Name == name }):
		case slices.ContainsFunc(others, func(l plugin.Listed) bool { return l.Name() == name }):
		default:
			found = append(found, f)
		}
	}
	return found
}

// addSource adds the plugin at the source of e to found. Without a source, the plugin must be in
// found.
func (p *Policy) addSource(e *config.Plugin, found *[]plugin.Found, taken []string) error {
	at := slices.IndexFunc(*found, func(f plugin.Found) bool { return f.Manifest.Name == e.Name })
	switch {
	case e.Source == "" && at < 0:
		names := make([]string, len(*found))
		for i, f := range *found {
			names[i] = f.Manifest.Name
		}
		if near := nearest.Name(e.Name, names); near != "" {
			return fmt.Errorf("plugin %q %w (did you mean %q?)", e.Name, errNotFound, near)
		}
		return fmt.Errorf("plugin %q %w", e.Name, errNotFound)
	case e.Source == "":
		return nil
	case at >= 0:
		return fmt.Errorf("plugin %q of %s: the name is taken by %s", e.Name, e.Source, (*found)[at].Path)
	case slices.Contains(taken, e.Name):
		return fmt.Errorf("plugin %q of %s: the name is taken by a built-in handler", e.Name, e.Source)
	}
	f, err := p.fetch(e)
	if err == nil {
		*found = append(*found, f)
	}
	return err
}

// errorOf returns the index of the error about a file or folder with the name of the plugin; -1 if
// there is none.
func errorOf(errs []error, name string) int {
	return slices.IndexFunc(errs, func(err error) bool {
		found, ok := errors.AsType[*plugin.FindError](err)
		if !ok {
			return false
		}
		file := filepath.Base(found.Path)
		return file == name || file == name+".wasm" || strings.TrimSuffix(file, ".exe") == plugin.ProcessPrefix+name
	})
}

// Shadows returns the loadable shadows of prober.yaml, along with the errors of the others.
func (p *Policy) Shadows() ([]Shadow, error) {
	var all []Shadow
	var errs []error
	for i, e := range p.file.Plugins {
		if !e.Shadow {
			continue
		}
		f, err := p.fetch(&e)
		var verdict trust.Verdict
		if err == nil {
			verdict, err = p.admitShadow(&f, &e)
		}
		if err != nil {
			errs = append(errs, &PluginError{e.Name, p.fieldError(i, err)})
			continue
		}
		all = append(all, Shadow{Plugin{Found: f, Verdict: verdict}, e.PromoteAfter})
	}
	return all, errors.Join(errs...)
}

// fetch returns the plugin at the source of e: a file, or the artifact pulled from a registry.
func (p *Policy) fetch(e *config.Plugin) (plugin.Found, error) {
	if _, ok := e.Reference(); !ok {
		read := p.readSource
		if e.Shadow { // a shadow may have the same file as its plugin
			read = plugin.Read
		}
		f, err := read(config.Beside(p.cfg.ConfigFile, e.Source))
		if err == nil && f.Manifest.Name != e.Name {
			err = otherName(e, f.Manifest.Name)
		}
		return f, err
	}
	for _, r := range p.pulled {
		if r.Name == e.Name && r.Shadow == e.Shadow {
			return r.Found, r.Err
		}
	}
	return plugin.Found{}, fmt.Errorf("source %s: it was not pulled", e.Source)
}

func otherName(e *config.Plugin, name string) error {
	return fmt.Errorf("source %s: its manifest calls the plugin %q", e.Source, name)
}

// develop reads a plugin under development, and sets the operator's grants and limits.
func (p *Policy) develop(name string, taken []string) (Plugin, error) {
	if slices.Contains(taken, name) {
		return Plugin{}, errors.New("the name is taken by a built-in handler")
	}
	f, err := plugin.Read(developed(p.cfg.Dev[name], name))
	if err != nil {
		return Plugin{}, err
	}
	if f.Manifest.Name != name {
		return Plugin{}, fmt.Errorf("its manifest calls the plugin %q", f.Manifest.Name)
	}
	p.allowCommands(&f)
	if i := p.entry(name); i >= 0 {
		constrain(&f, &p.file.Plugins[i])
	}
	return Plugin{Found: f, Verdict: trust.Verdict{State: Dev}}, nil
}

// developed returns the file or folder of the plugin under development at path. A folder
// without a plugin.yaml has NAME.wasm.
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
