package importcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
)

// Validate makes the checks of `prober validate` for a prober.yaml and folders of plugins.
type Validate func(ctx context.Context, configFile string, pluginDirs []string) error

// accepted returns prober.yaml. It leaves out, and reports, the entries that validate refuses, and checks modules
// without targets too. An error means that nothing can be written. See RATIONALE.md, "Why does prober import let
// prober validate decide what it writes?".
func (p *plan) accepted(ctx context.Context, tool string, validate Validate) ([]byte, error) {
	dir, err := os.MkdirTemp("", "prober-import-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "prober.yaml")
	plugins, err := p.writeManifests(filepath.Join(dir, "plugins"))
	if err != nil {
		return nil, err
	}
	for range maxRounds {
		file, err := p.render(tool, true)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return nil, err
		}
		err = check(ctx, path, file, plugins, validate)
		switch {
		case err == nil:
			return p.render(tool, false)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !p.drop(err):
			return nil, fmt.Errorf("prober refuses what would be written: %w", err)
		}
	}
	return nil, errors.New("prober refuses what would be written, also without the entries that it has refused")
}

// maxRounds bounds how often the rest is checked again after entries were left out.
const maxRounds = 20

// check returns the errors of a file.
func check(ctx context.Context, path string, file []byte, plugins []string, validate Validate) error {
	if _, err := config.Parse(path, file); err != nil || validate == nil {
		return err
	}
	return validate(ctx, path, plugins)
}

// drop leaves out the entries in which err has errors. It reports whether there are any.
func (p *plan) drop(err error) (any bool) {
	entries := p.entries()
	slices.SortStableFunc(entries, func(a, b *entry) int { return a.line - b.line })
	for _, err := range joined.Errors(err) {
		at, ok := errors.AsType[*yamlpos.Error](err)
		if !ok {
			continue
		}
		i, exact := slices.BinarySearchFunc(entries, lineOf(at), func(e *entry, line int) int { return e.line - line })
		if !exact {
			i--
		}
		if i < 0 || p.startsBetween(entries[i].line, lineOf(at)) {
			continue // the error is not in an entry
		}
		if e := entries[i]; !e.dropped {
			e.dropped, any = true, true
			where := at.Field // of an entry with a number that the input does not have
			if _, below, ok := strings.Cut(where, "]."); ok {
				where = below
			}
			if where != "" {
				where += ": "
			}
			p.noEqual(e.at, "it is not imported: prober refuses %s%v", where, at.Err)
		}
	}
	return any
}

// startsBetween reports whether a top-level field begins after the line first, up to last.
func (p *plan) startsBetween(first, last int) bool {
	return slices.ContainsFunc(p.starts, func(line int) bool { return line > first && line <= last })
}

// lineOf returns the line of an error. That of a target is in the name of its source.
func lineOf(err *yamlpos.Error) int {
	if err.Line > 0 {
		return err.Line
	}
	line, _ := strconv.Atoi(err.File[strings.LastIndexByte(err.File, ':')+1:]) // 0 is no line
	return line
}

// entries returns the entries that were written.
func (p *plan) entries() (all []*entry) {
	add := func(e *entry) {
		if !e.dropped && e.line > 0 {
			all = append(all, e)
		}
	}
	for _, x := range p.groups {
		add(&x.entry)
	}
	for _, x := range p.modules {
		add(&x.entry)
	}
	for _, x := range p.pushes {
		add(&x.entry)
	}
	for _, x := range p.endpoints {
		add(&x.entry)
	}
	for _, x := range p.credentials {
		add(&x.entry)
	}
	for _, x := range p.receivers {
		add(&x.entry)
	}
	for _, x := range p.windows {
		add(&x.entry)
	}
	return all
}

// writeManifests writes the manifests of Nagios plugins below dir. It returns dir, or nothing if there are
// none.
func (p *plan) writeManifests(dir string) ([]string, error) {
	if len(p.manifests) == 0 {
		return nil, nil
	}
	for _, name := range sortedKeys(p.manifests) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "plugin.yaml"), p.manifests[name], 0o644); err != nil {
			return nil, err
		}
	}
	return []string{dir}, nil
}
