package yamlpos

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Error is an error with its position in a file.
type Error struct {
	File  string
	Line  int    // from 1; 0 for the file
	Field string // such as "config.schema.properties.maxLag"; "" for the whole document
	Err   error
}

// Error returns "FILE:LINE: FIELD: message".
func (e *Error) Error() string {
	place := e.File
	if e.Line > 0 {
		place += fmt.Sprintf(":%d", e.Line)
	}
	if e.Field != "" {
		place += ": " + e.Field
	}
	return place + ": " + e.Err.Error()
}

// Unwrap returns the error without its position.
func (e *Error) Unwrap() error { return e.Err }

// parserPlace matches the position that the YAML parser prepends to most of its errors.
var parserPlace = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^yaml: (?:[a-z ]*error: )?(?:.*?)line (\d+)(?:, column \d+)?: `)
})

// syntaxError returns an error of the YAML parser with its line as a number.
func syntaxError(file string, err error) *Error {
	text, line := err.Error(), 1
	if m := parserPlace().FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if strings.HasSuffix(text, "cannot start any token") {
		text += ", such as a tab: indent with spaces"
	}
	return &Error{File: file, Line: line, Err: errors.New(text)}
}
