package plugin

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// OCIScheme is the prefix of the source of a plugin in a registry.
const OCIScheme = "oci://"

// Reference is the place of a plugin in a registry. It has a tag, a digest or both. If it has both,
// the tag is ignored.
type Reference struct {
	Registry   string // HOST or HOST:PORT
	Repository string
	Tag        string
	Digest     string // "sha256:…" of the OCI manifest
}

var (
	repositoryPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	})
	tagPattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`) })
	digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })
)

// maxReference is the maximum length of a reference, in bytes; registries accept less.
const maxReference = 1024

// ParseReference parses [oci://]HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]. There is no default host.
func ParseReference(text string) (Reference, error) {
	fail := func(format string, args ...any) (Reference, error) {
		return Reference{}, fmt.Errorf("reference %.200q: "+format, append([]any{text}, args...)...)
	}
	if len(text) > maxReference {
		return fail("more than %d bytes", maxReference)
	}
	rest, schemed := strings.CutPrefix(text, OCIScheme)
	if scheme, _, ok := strings.Cut(rest, "://"); ok {
		return fail("%.80q is not a scheme that prober knows; known: oci", scheme)
	}
	var r Reference
	var ok bool
	if r.Registry, rest, ok = strings.Cut(rest, "/"); !ok {
		return fail("must be HOST/REPOSITORY:TAG, such as ghcr.io/me/demo:1.0.0")
	}
	if err := checkRegistry(r.Registry, schemed); err != nil {
		return fail("%w", err)
	}
	rest, r.Digest, ok = strings.Cut(rest, "@")
	if ok && !digestPattern().MatchString(r.Digest) {
		return fail("%.80q is not a digest: must be sha256: and 64 hexadecimal digits in lower case", r.Digest)
	}
	r.Repository, r.Tag, ok = strings.Cut(rest, ":")
	if ok && !ValidTag(r.Tag) {
		return fail("%.80q is not a tag", r.Tag)
	}
	if !repositoryPattern().MatchString(r.Repository) {
		return fail("%.80q is not a repository: must be lower-case letters, digits, and single separators between them", r.Repository)
	}
	if r.Tag == "" && r.Digest == "" {
		return fail("must have a :TAG or an @sha256:DIGEST")
	}
	return r, nil
}

// checkRegistry checks a host with or without a port. Without a scheme, a host without a dot could
// be a folder, and is an error.
func checkRegistry(host string, schemed bool) error {
	u, err := url.ParseRequestURI(OCIScheme + host)
	if err != nil || u.Host != host || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("%.80q is not a registry", host)
	}
	if !schemed && u.Hostname() != "localhost" && !strings.ContainsAny(host, ".:") {
		return errors.New("must be HOST/REPOSITORY:TAG with a full host name, such as ghcr.io/me/demo:1.0.0")
	}
	return nil
}

// String returns r without a scheme.
func (r Reference) String() string {
	text := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// Pinned returns the reference of the manifest with a digest, in the repository of r.
func (r Reference) Pinned(digest string) Reference {
	r.Tag, r.Digest = "", digest
	return r
}

// ValidTag reports whether tag can be the tag of a reference.
func ValidTag(tag string) bool { return tagPattern().MatchString(tag) }
