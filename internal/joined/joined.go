// Package joined takes apart and prints what errors.Join has joined.
package joined

import "strings"

// Errors returns the errors that err joins, at any depth: err itself if it joins none, and none
// if err is nil.
func Errors(err error) []error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range list.Unwrap() {
		all = append(all, Errors(e)...)
	}
	return all
}

// Line returns the text of err on one line, with "; " between the errors that it joins.
func Line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
