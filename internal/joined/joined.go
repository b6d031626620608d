// Package joined splits and prints errors made by errors.Join.
package joined

import "strings"

// Errors returns the errors that err joins, at any depth. It returns err itself if err joins none, and nil
// if err is nil. An error whose text has more than the joined texts, such as one of fmt.Errorf with several %w, counts
// as one error.
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
