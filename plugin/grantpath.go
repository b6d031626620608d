package plugin

import (
	"cmp"
	"net/url"
	"strings"
)

// matchesPath holds a URL's path against the pattern's. A path that a server may read as
// another one matches no pattern but that for all paths, and every denial. So does one that
// differs from a denied path in upper and lower case only.
func (g Grant) matchesPath(d Dial) bool {
	if g.path == "" || g.path == "/*" {
		return true
	}
	plain, ok := plainPath(cmp.Or(d.Path, "/"))
	if !ok {
		return g.deny
	}
	pattern := g.path
	if g.deny {
		pattern, plain = strings.ToLower(pattern), strings.ToLower(plain)
	}
	if below, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(plain, below)
	}
	return plain == pattern
}

// plainPath returns a URL's path without its escapes, and whether every server reads it in
// the same way. Then it is absolute, and consists of characters that a URL's path has without
// an escape (RFC 3986), ";" apart, which begins the parameters of a segment. So there is
// nothing left to decode once more: no "%", no UTF-8. No segment is empty, save the last, and
// none is of dots only.
func plainPath(escaped string) (plain string, ok bool) {
	plain, err := url.PathUnescape(escaped)
	if err != nil || plain == "" || plain[0] != '/' || strings.Contains(strings.ToLower(escaped), "%2f") {
		return "", false
	}
	for _, c := range []byte(plain) {
		if !isPathByte(c) {
			return "", false
		}
	}
	segments := strings.Split(plain[1:], "/")
	for i, segment := range segments {
		if segment == "" && i < len(segments)-1 || segment != "" && strings.Trim(segment, ".") == "" {
			return "", false
		}
	}
	return plain, true
}

// isPlain reports whether a path without escapes is one that [plainPath] can return.
func isPlain(path string) bool {
	_, ok := plainPath(path)
	return ok && !strings.Contains(path, "%")
}

func isPathByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,=:@/", c) >= 0
}
