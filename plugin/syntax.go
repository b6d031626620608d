package plugin

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// yamlPlace is how the YAML package begins most of its errors.
var yamlPlace = regexp.MustCompile(`^yaml: (?:[a-z ]*error: )?(?:.*?)line (\d+)(?:, column \d+)?: `)

// SyntaxError places an error of the YAML package, which names the line in words, as all
// others of a file are placed.
func SyntaxError(file string, err error) *FieldError {
	text, line := err.Error(), 1
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return &FieldError{File: file, Line: line, Err: errors.New(strings.TrimPrefix(text, "yaml: "))}
}
