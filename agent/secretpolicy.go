package agent

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

// secretPolicy is the allow-list of ${file:…} and ${env:…}: what manifests may refer to. The
// zero value allows nothing.
type secretPolicy struct {
	configFile string // ""; there is none
	allow      []string
}

// secretPolicyOf returns what the file at configFile allows.
func secretPolicyOf(configFile string, file *config.Agent) secretPolicy {
	p := secretPolicy{configFile: configFile}
	for _, pattern := range file.Secrets.Allow {
		if name, ok := strings.CutPrefix(pattern, config.SecretFile); ok {
			at, _ := filepath.Abs(config.Beside(configFile, name)) // "" matches nothing
			pattern = config.SecretFile + at
		}
		p.allow = append(p.allow, pattern)
	}
	return p
}

// refusal is the error for a secret that is not allowed.
func (p *secretPolicy) refusal(why, secret string) error {
	return fmt.Errorf("%s: add %q to secrets.allow in %s", why, secret, cmp.Or(p.configFile, "a prober.yaml for --config"))
}

// variable says why ${env:NAME} is not allowed.
func (p *secretPolicy) variable(name string) error {
	for pattern := range p.of(config.SecretEnv) {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return nil
		}
	}
	return p.refusal("not allowed", config.SecretEnv+name)
}

// file returns the file that ${file:NAME} stands for, without links. A link may lead to a file
// below its own folder, as those of Kubernetes's secrets do, or to one that is allowed.
func (p *secretPolicy) file(name string) (string, error) {
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
func (p *secretPolicy) written(name string) (string, error) {
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
func (p *secretPolicy) of(source string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, pattern := range p.allow {
			if rest, ok := strings.CutPrefix(pattern, source); ok && !yield(rest) {
				return
			}
		}
	}
}

// matching yields the patterns of files that match a path.
func (p *secretPolicy) matching(at string) func(yield func(string) bool) {
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

// secret resolves ${file:…} and ${env:…} in a probe's config, as far as prober.yaml allows it.
func (a *Agent) secret(source, name string) (string, error) {
	policy := a.handlers.secretPolicy()
	if source == "env" {
		if err := policy.variable(name); err != nil {
			return "", err
		}
		return Secret(a.cfg.LookupEnv, source, name)
	}
	if _, err := policy.written(name); err != nil {
		return "", err
	}
	a.secretFiles.note(name)
	for attempt := 1; ; attempt++ {
		file, err := policy.file(name)
		if err != nil {
			return "", err
		}
		// Secrets of Kubernetes are replaced by another link, and what it led to is removed.
		// Who owns a folder on the way may put a link there at any time: none is followed.
		data, err := regular.ReadNoLinks(file, MaxSecret)
		if attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return string(trimNewline(data)), err
		}
	}
}

// secretPolicy returns what prober.yaml allows now.
func (s *handlerSet) secretPolicy() secretPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}

// allowsOthers reports whether there is another secretPolicy since it was last asked:
// manifests may have been refused for the one before, or refer to what it allows no more.
func (s *handlerSet) allowsOthers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.otherSecrets
	s.otherSecrets = false
	return others
}
