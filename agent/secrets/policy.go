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

// Policy is the allow-list of ${file:…} and ${env:…}. The zero value allows nothing. It is
// read-only.
type Policy struct {
	configFile string // "" for none
	allow      []string
}

// PolicyOf returns the policy of a prober.yaml and its path, "" for none.
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

// AllowsFile returns an error if ${file:NAME} is not allowed as it is written. It does not access
// the file.
func (p *Policy) AllowsFile(name string) error {
	_, err := p.written(name)
	return err
}

// refusal returns the error for a secret that is not allowed.
func (p *Policy) refusal(why, secret string) error {
	return fmt.Errorf("%s: add %q to secrets.allow in %s", why, secret, cmp.Or(p.configFile, "a prober.yaml for --config"))
}

// AllowsVariable returns an error if ${env:NAME} is not allowed.
func (p *Policy) AllowsVariable(name string) error {
	for _, allowed := range p.allow {
		pattern, isVariable := strings.CutPrefix(allowed, config.SecretEnv)
		if ok, err := path.Match(pattern, name); isVariable && ok && err == nil {
			return nil
		}
	}
	return p.refusal("not allowed", config.SecretEnv+name)
}

// file returns the path of the file that ${file:NAME} leads to, without links. A link may lead to
// a file below its own folder, as in the volumes of Kubernetes secrets, or to an allowed file.
func (p *Policy) file(name string) (string, error) {
	at, err := p.written(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", err
	}
	below := func(pattern string) bool { return isBelow(pattern, at, real) }
	if len(p.matching(real)) > 0 || slices.ContainsFunc(p.matching(at), below) {
		return real, nil
	}
	return "", p.refusal("not allowed: it leads to "+real, config.SecretFile+real)
}

// written returns the absolute path of ${file:NAME}, and an error if that is not allowed. It does
// not access the file.
func (p *Policy) written(name string) (string, error) {
	if slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..") {
		return "", errors.New("not allowed: the path must not have .. in it")
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if len(p.matching(at)) > 0 {
		return at, nil
	}
	return "", p.refusal("not allowed", config.SecretFile+at)
}

// matching returns the patterns of files that match a path.
func (p *Policy) matching(at string) (patterns []string) {
	for _, allowed := range p.allow {
		pattern, isFile := strings.CutPrefix(allowed, config.SecretFile)
		if ok, err := filepath.Match(pattern, at); isFile && ok && err == nil {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// isBelow reports whether real, where at leads to, is below the folder of at. The part of that
// folder before the first wildcard of pattern may be a link; the rest may not, since any user may
// have made it.
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

// hasMeta reports whether a pattern of [filepath.Match] has wildcards or escapes.
func hasMeta(pattern string) bool {
	return strings.ContainsAny(pattern, "*?[") || runtime.GOOS != "windows" && strings.Contains(pattern, `\`)
}

// Resolve returns the value of ${file:NAME} or ${env:NAME}, if p allows it; source is "file" or
// "env". It adds the file to files before it reads it. lookupEnv may be nil.
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
		// Kubernetes updates a secret by replacing a link and removing its old target. The owner
		// of a folder on the way may put a link there at any time: links are not followed.
		data, err := regular.ReadNoLinks(file, MaxSize)
		if attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return string(trimNewline(data)), err
		}
	}
}
