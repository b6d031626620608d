// Package joined takes apart and prints what errors.Join has joined.
package joined

import "strings"

// Errors returns the errors that err joins, at any depth: err itself if it joins none, and none
// if err is nil. An error that says more than those it wraps, as one of several %w does, joins none.
func Errors(err error) []error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	var texts []string
	for _, e := range list.Unwrap() {
		all, texts = append(all, Errors(e)...), append(texts, e.Error())
	}
	if err.Error() != strings.Join(texts, "\n") {
		return []error{err}
	}
	return all
}

// Line returns the text of err on one line, with "; " between the errors that it joins.
func Line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
