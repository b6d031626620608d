package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/yaml"
)

// Encode writes v to stdout as JSON or YAML.
func (env *Env) Encode(format string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return Failed(err)
	}
	text, err := b.Bytes(), error(nil)
	if format == YAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return Failed(err)
		}
	}
	_, err = env.Stdout.Write(text)
	return err
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Count returns n with a noun, which gets an s unless n is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
