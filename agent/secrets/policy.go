package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/regular"
)

// Policy is the allow-list of ${file:…} and ${env:…}: what probes may refer to. The
// zero value allows nothing. It is read-only.
type Policy struct {
	configFile string // ""; there is none
	allow      []string
}

// PolicyOf returns what the agent's file allows, which is at configFile; "": there is none.
func PolicyOf(configFile string, file *config.Agent) Policy {
	p := Policy{configFile: configFile}
	for _, pattern := range file.Secrets.Allow {
		if name, ok := strings.CutPrefix(pattern, config.SecretFile); ok {
			at, _ := filepath.Abs(config.Beside(configFile, name)) // "" matches nothing
			pattern = config.SecretFile + at
		}
		p.allow = append(p.allow, pattern)
	}
	return p
}

// Equal reports whether two policies allow the same.
func (p *Policy) Equal(other *Policy) bool { return slices.Equal(p.allow, other.allow) }

// AllowsFile returns why ${file:NAME} is not allowed as it is written, nil when it is. It does
// not look at the file.
func (p *Policy) AllowsFile(name string) error {
	_, err := p.written(name)
	return err
}

// refusal is the error for a secret that is not allowed.
func (p *Policy) refusal(why, secret string) error {
	return fmt.Errorf("%s: add %q to secrets.allow in %s", why, secret, cmp.Or(p.configFile, "a prober.yaml for --config"))
}

// AllowsVariable returns why ${env:NAME} is not allowed, nil when it is.
func (p *Policy) AllowsVariable(name string) error {
	for pattern := range p.of(config.SecretEnv) {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return nil
		}
	}
	return p.refusal("not allowed", config.SecretEnv+name)
}

// file returns the file that ${file:NAME} stands for, without links. A link may lead to a file
// below its own folder, as those of Kubernetes's secrets do, or to one that is allowed.
func (p *Policy) file(name string) (string, error) {
	at, err := p.written(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", err
	}
	for range p.matching(real) {
		return real, nil
	}
	if !slices.ContainsFunc(slices.Collect(p.matching(at)), func(pattern string) bool { return isBelow(pattern, at, real) }) {
		return "", p.refusal("not allowed: it leads to "+real, config.SecretFile+real)
	}
	return real, nil
}

// written returns the absolute path of ${file:NAME}, which is allowed as it is written. It
// does not look at the file.
func (p *Policy) written(name string) (string, error) {
	if slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..") {
		return "", errors.New("not allowed: the path must not have .. in it")
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	for range p.matching(at) {
		return at, nil
	}
	return "", p.refusal("not allowed", config.SecretFile+at)
}

// of yields the patterns of a source.
func (p *Policy) of(source string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, pattern := range p.allow {
			if rest, ok := strings.CutPrefix(pattern, source); ok && !yield(rest) {
				return
			}
		}
	}
}

// matching yields the patterns of files that match a path.
func (p *Policy) matching(at string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for pattern := range p.of(config.SecretFile) {
			if ok, err := filepath.Match(pattern, at); ok && err == nil && !yield(pattern) {
				return
			}
		}
	}
}

// isBelow reports whether real, where at leads to, is below the folder of at. That folder may
// be a link as far as the operator has written it: one that stands for a * may be anybody's.
func isBelow(pattern, at, real string) bool {
	fixed := filepath.Dir(pattern)
	for hasMeta(fixed) && filepath.Dir(fixed) != fixed {
		fixed = filepath.Dir(fixed)
	}
	rest, err := filepath.Rel(fixed, filepath.Dir(at))
	if err != nil {
		return false
	}
	if fixed, err = filepath.EvalSymlinks(fixed); err != nil {
		return false
	}
	rest, err = filepath.Rel(filepath.Join(fixed, rest), real)
	return err == nil && filepath.IsLocal(rest)
}

// hasMeta reports whether a pattern of [filepath.Match] is more than a path.
func hasMeta(pattern string) bool {
	return strings.ContainsAny(pattern, "*?[") || runtime.GOOS != "windows" && strings.Contains(pattern, `\`)
}

// Resolve returns what ${file:NAME} or ${env:NAME} stands for, as far as p allows it; source is
// "file" or "env". A file is noted in files before it is read. lookupEnv may be nil.
func (p *Policy) Resolve(lookupEnv func(name string) (string, bool), files *Files, source, name string) (string, error) {
	if source == "env" {
		if err := p.AllowsVariable(name); err != nil {
			return "", err
		}
		return Resolve(lookupEnv, source, name)
	}
	if err := p.AllowsFile(name); err != nil {
		return "", err
	}
	files.note(name)
	for attempt := 1; ; attempt++ {
		file, err := p.file(name)
		if err != nil {
			return "", err
		}
		// Secrets of Kubernetes are replaced by another link, and what it led to is removed.
		// Who owns a folder on the way may put a link there at any time: none is followed.
		data, err := regular.ReadNoLinks(file, MaxSize)
		if attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return string(trimNewline(data)), err
		}
	}
}
