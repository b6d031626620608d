package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/regular"
)

// Policy is the allow-list for ${file:…} and ${env:…}. The zero value allows nothing. It is read-only.
// See RATIONALE.md, "Why may manifests refer to no secret by default?"
type Policy struct {
	configFile string // "" for none
	folder     string // absolute folder of configFile; "" if unknown
	allow      []string
}

// PolicyOf returns the policy in a prober.yaml. configFile is its path, "" if there is none.
func PolicyOf(configFile string, file *config.Agent) Policy {
	p := Policy{configFile: configFile, folder: folderOf(configFile)}
	for _, pattern := range file.Secrets.Allow {
		if name, ok := strings.CutPrefix(pattern, config.SecretFile); ok {
			if name = p.path(name, escaped(p.folder)); name == "" {
				continue
			}
			pattern = config.SecretFile + name
		}
		p.allow = append(p.allow, pattern)
	}
	return p
}

// folderOf returns the absolute path of the folder of a file. It resolves .. after links, as the system does
// when it opens the file: the parent of a link differs from the parent of its target.
func folderOf(file string) string {
	folder := filepath.Dir(file)
	if i := strings.LastIndexByte(file, filepath.Separator); i >= 0 {
		folder = file[:i+1] // Dir would remove .. without resolving links
	}
	if !filepath.IsAbs(folder) {
		working, err := os.Getwd()
		if err != nil {
			return ""
		}
		folder = working + string(filepath.Separator) + folder
	}
	if !hasParent(folder) {
		return filepath.Clean(folder)
	}
	folder, _ = filepath.EvalSymlinks(folder) // "" if the folder does not exist
	return folder
}

// hasParent reports whether a path contains the element "..".
func hasParent(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..")
}

// escaped returns a [filepath.Match] pattern that only matches path.
func escaped(path string) string {
	if runtime.GOOS == "windows" {
		return path // patterns on Windows have no escapes
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// path returns the absolute path for a name in secrets.allow or in a reference; "" if unknown. A relative
// name is relative to folder, the folder of prober.yaml or a pattern that matches it.
func (p *Policy) path(name, folder string) string {
	switch {
	case filepath.IsAbs(name):
		return filepath.Clean(name)
	case folder == "":
		return ""
	}
	return filepath.Join(folder, name)
}

// Equal reports whether two policies allow the same secrets.
func (p *Policy) Equal(other *Policy) bool {
	return p.folder == other.folder && slices.Equal(p.allow, other.allow)
}

// Allows returns an error if ${file:NAME} or ${env:NAME} is not allowed as written; source is "file" or
// "env". It does not access the file.
func (p *Policy) Allows(source, name string) error {
	if source == "env" {
		return p.allowsVariable(name)
	}
	_, err := p.allowedPath(name)
	return err
}

// refusal returns the error for a secret that is not allowed.
func (p *Policy) refusal(why, secret string) error {
	return fmt.Errorf("%s: add %q to secrets.allow in %s", why, secret, cmp.Or(p.configFile, "a prober.yaml for --config"))
}

// allowsVariable returns an error if ${env:NAME} is not allowed.
func (p *Policy) allowsVariable(name string) error {
	for _, allowed := range p.allow {
		pattern, isVariable := strings.CutPrefix(allowed, config.SecretEnv)
		if ok, err := path.Match(pattern, name); isVariable && ok && err == nil {
			return nil
		}
	}
	return p.refusal("not allowed", config.SecretEnv+name)
}

// resolveFile returns the path without links of the file at at, a result of written. A link must lead to a
// file below its own folder, as in the volumes of Kubernetes secrets, or to an allowed file.
func (p *Policy) resolveFile(at string) (string, error) {
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

// allowedPath returns the absolute path of ${file:NAME}, and an error if it is not allowed. It does not
// access the file.
func (p *Policy) allowedPath(name string) (string, error) {
	if hasParent(name) {
		return "", errors.New("not allowed: the path must not have .. in it")
	}
	at := p.path(name, p.folder)
	if len(p.matching(at)) > 0 {
		return at, nil
	}
	return "", p.refusal("not allowed", config.SecretFile+cmp.Or(at, name))
}

// matching returns the file patterns that match a path.
func (p *Policy) matching(at string) (patterns []string) {
	for _, allowed := range p.allow {
		pattern, isFile := strings.CutPrefix(allowed, config.SecretFile)
		if ok, err := filepath.Match(pattern, at); isFile && ok && err == nil {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// isBelow reports whether real, the target of at, is below the folder of at. The part of that folder before
// the first wildcard of pattern may contain links. The rest must not, as any user may have created it.
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

// Resolve returns the value of ${file:NAME} or ${env:NAME} if p allows it; source is "file" or "env". It adds
// the file to files before it reads the file. lookupEnv may be nil.
func (p *Policy) Resolve(lookupEnv func(name string) (string, bool), files *Files, source, name string) (string, error) {
	if source == "env" {
		if err := p.allowsVariable(name); err != nil {
			return "", err
		}
		return Resolve(lookupEnv, source, name)
	}
	at, err := p.allowedPath(name)
	if err != nil {
		return "", err
	}
	files.note(name, at)
	for attempt := 1; ; attempt++ {
		file, err := p.resolveFile(at)
		if err != nil {
			return "", err
		}
		// Kubernetes updates a secret by replacing a link and removing the old target. The owner of a folder
		// in the path may add links at any time, so links are not followed.
		data, err := regular.ReadNoLinks(file, MaxSize)
		if attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return string(trimNewline(data)), err
		}
	}
}
