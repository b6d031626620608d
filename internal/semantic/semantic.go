// Package semantic compares the versions of plugins as semantic versions.
package semantic

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// Level is the part of a version that a change raises.
type Level int

// The levels, in ascending order.
const (
	None Level = iota
	Patch
	Minor
	Major
)

// String returns "none", "patch", "minor" or "major".
func (l Level) String() string { return [...]string{"none", "patch", "minor", "major"}[l] }

// MarshalText implements [encoding.TextMarshaler].
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Level) UnmarshalText(text []byte) error {
	for level := None; level <= Major; level++ {
		if level.String() == string(text) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("%.20q is not a level", text)
}

// Valid reports whether a version can be compared.
func Valid(version string) bool { return semver.IsValid(canonical(version)) }

// Compare returns a negative number if a is older than b, and a positive one if it is newer. Versions that are not
// valid are older than all others.
func Compare(a, b string) int { return semver.Compare(canonical(a), canonical(b)) }

// Newer reports whether version a is newer than b. It returns false unless both are valid.
func Newer(a, b string) bool { return Valid(a) && Valid(b) && Compare(a, b) > 0 }

// Raised returns the level of the step from one version to a newer one. Before 1.0.0 it is one level higher
// than the raised number: a raised minor number permits what a major one does afterwards. A pre-release permits
// everything to the next version with the same numbers. Raised returns None unless both are valid and to is newer.
func Raised(from, to string) Level {
	if !Newer(to, from) {
		return None
	}
	a, b := canonical(from), canonical(to)
	zero := semver.Major(b) == "v0"
	switch {
	case semver.Major(a) != semver.Major(b):
		return Major
	case semver.MajorMinor(a) != semver.MajorMinor(b) && zero:
		return Major
	case semver.MajorMinor(a) != semver.MajorMinor(b):
		return Minor
	case semver.Prerelease(a) != "" && numbers(a) == numbers(b):
		return Major
	case zero:
		return Minor
	default:
		return Patch
	}
}

// numbers returns the three numbers of a canonical version.
func numbers(version string) string {
	version, _, _ = strings.Cut(version, "-")
	return version
}

// canonical converts a version to the form of package semver: three numbers without leading zeros,
// then the pre-release. It drops build metadata.
func canonical(version string) string {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	version, pre, _ := strings.Cut(version, "-")
	numbers := strings.Split(version, ".")
	for len(numbers) < 3 {
		numbers = append(numbers, "0")
	}
	version = "v" + joinIdentifiers(numbers)
	if pre != "" {
		version += "-" + joinIdentifiers(strings.Split(pre, "."))
	}
	return version
}

// joinIdentifiers joins identifiers of a version with dots. It removes leading zeros of numbers.
func joinIdentifiers(all []string) string {
	for i, id := range all {
		if id != "" && strings.Trim(id, "0123456789") == "" {
			all[i] = cmp.Or(strings.TrimLeft(id, "0"), "0")
		}
	}
	return strings.Join(all, ".")
}

// Next returns the lowest version after version that permits a change of this level, "" if version is not valid.
func Next(version string, level Level) string {
	if !Valid(version) {
		return ""
	}
	var major, minor, patch uint64
	if _, err := fmt.Sscanf(numbers(canonical(version)), "v%d.%d.%d", &major, &minor, &patch); err != nil {
		return ""
	}
	if major == 0 && level > Patch {
		level--
	}
	switch level {
	case Major:
		return fmt.Sprintf("%d.0.0", major+1)
	case Minor:
		return fmt.Sprintf("%d.%d.0", major, minor+1)
	default:
		return fmt.Sprintf("%d.%d.%d", major, minor, patch+1)
	}
}

// IsPrerelease reports whether a version is valid and a pre-release, such as 1.0.0-rc.1.
func IsPrerelease(version string) bool { return semver.Prerelease(canonical(version)) != "" }
