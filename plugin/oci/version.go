package oci

import (
	"cmp"
	"strconv"
	"strings"
)

// newer reports whether version a is newer than b, both of which are as those of semver.org.
// Of others nobody knows.
func newer(a, b string) bool {
	x, preX, okX := parseVersion(a)
	y, preY, okY := parseVersion(b)
	if !okX || !okY {
		return false
	}
	order := cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(x[2], y[2]))
	if order != 0 || preX == preY {
		return order > 0
	}
	if preX == "" || preY == "" {
		return preX == "" // it is the version that the other one led up to
	}
	return comparePre(strings.Split(preX, "."), strings.Split(preY, ".")) > 0
}

// parseVersion reads MAJOR[.MINOR[.PATCH]][-PRE][+BUILD].
func parseVersion(text string) (numbers [3]uint64, pre string, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	text, pre, _ = strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(parts) > len(numbers) {
		return numbers, "", false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return numbers, "", false
		}
		numbers[i] = n
	}
	return numbers, pre, true
}

// comparePre compares identifiers: numbers come before words, and less before more.
func comparePre(x, y []string) int {
	for i := range min(len(x), len(y)) {
		m, errM := strconv.ParseUint(x[i], 10, 32)
		n, errN := strconv.ParseUint(y[i], 10, 32)
		order := cmp.Compare(x[i], y[i])
		switch {
		case errM == nil && errN == nil:
			order = cmp.Compare(m, n)
		case errM == nil:
			order = -1
		case errN == nil:
			order = 1
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}
