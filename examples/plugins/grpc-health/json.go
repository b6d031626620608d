package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/daeace23/prober/sdk"
)

var errObject = errors.New("must be an object of strings")

// fields returns the members of a JSON object of strings. The document is known to be JSON.
func fields(doc []byte) ([]field, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(doc)), "{")
	if !ok {
		return nil, errObject
	}
	var all []field
	for {
		rest = strings.TrimLeft(rest, " \t\r\n,")
		if strings.HasPrefix(rest, "}") {
			return all, nil
		}
		var f field
		if f.name, rest, ok = text(rest); !ok {
			return nil, errObject
		}
		rest = strings.TrimLeft(rest, " \t\r\n:")
		if f.value, rest, ok = text(rest); !ok {
			return nil, fmt.Errorf("%.40s: must be a string", f.name)
		}
		all = append(all, f)
	}
}

// text returns the JSON string that doc begins with, and the rest.
func text(doc string) (value, rest string, ok bool) {
	if !strings.HasPrefix(doc, `"`) {
		return "", "", false
	}
	for i := 1; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			value, _ = sdk.Lookup([]byte(`{"v":`+doc[:i+1]+`}`), "v")
			return value, doc[i+1:], true
		}
	}
	return "", "", false
}
