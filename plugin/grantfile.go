package plugin

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// fileScheme is the scheme of grants of files.
const fileScheme = "file"

// below is the last segment of a pattern for a folder and all below it.
const below = "**"

// MaxFilePath is the maximum length of the path of a file, in bytes.
const MaxFilePath = 4 << 10

// CheckFilePath returns an error unless a path is absolute, and free of ., .., empty segments and NUL.
func CheckFilePath(name string) error {
	switch {
	case len(name) > MaxFilePath:
		return errors.New("the path is too long")
	case !path.IsAbs(name) || path.Clean(name) != name || strings.ContainsRune(name, 0):
		return errors.New("the path must be absolute, without . and .. in it, and without a slash at its end")
	}
	return nil
}

// checkFilePattern checks the path of a grant of files.
func checkFilePattern(pattern string) error {
	if CheckFilePath(pattern) != nil {
		return errors.New("must be file:///path, without . and .. in it, and without a slash at its end")
	}
	all := segments(pattern)
	if at := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, below) }); at >= 0 && (at < len(all)-1 || all[at] != below) {
		return errors.New("a ** is the whole last segment of the path")
	}
	return nil
}

// segments returns the segments of a path; none of the root folder.
func segments(name string) []string {
	if name == "/" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(name, "/"), "/")
}

// MatchesFile reports whether the pattern matches the path of a file. [Grant.Deny] reports whether it
// denies the file then. Denials ignore case, since some file systems do.
func (g Grant) MatchesFile(name string) bool {
	if g.scheme != fileScheme {
		return false
	}
	pattern := g.path
	if g.deny {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	want, got := segments(pattern), segments(name)
	if n := len(want) - 1; n >= 0 && want[n] == below {
		if len(got) < n {
			return false
		}
		want, got = want[:n], got[:n]
	}
	return slices.EqualFunc(want, got, matchesSegment)
}

// matchesSegment compares a segment of a pattern, in which each * stands for any characters, with a name.
func matchesSegment(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	for ok {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part) // the first occurrence leaves most for the rest
		rest = next
	}
	return false
}

// overlappingFiles reports whether both patterns may match the same path.
func overlappingFiles(a, b []string) bool {
	for i := 0; ; i++ {
		switch {
		case i < len(a) && a[i] == below || i < len(b) && b[i] == below:
			return true
		case i >= len(a) || i >= len(b):
			return len(a) == len(b) || i == len(a) && b[i] == below || i == len(b) && a[i] == below
		case !overlappingSegments(a[i], b[i]):
			return false
		}
	}
}

// overlappingSegments reports whether both patterns may match the same name. For two patterns with a * it
// compares the texts before the first * and after the last.
func overlappingSegments(a, b string) bool {
	switch {
	case !strings.Contains(a, "*"):
		return matchesSegment(b, a)
	case !strings.Contains(b, "*"):
		return matchesSegment(a, b)
	}
	beginA, beginB := a[:strings.IndexByte(a, '*')], b[:strings.IndexByte(b, '*')]
	endA, endB := a[strings.LastIndexByte(a, '*')+1:], b[strings.LastIndexByte(b, '*')+1:]
	return (strings.HasPrefix(beginA, beginB) || strings.HasPrefix(beginB, beginA)) &&
		(strings.HasSuffix(endA, endB) || strings.HasSuffix(endB, endA))
}
