package sdk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// Config is the configuration of a probe: a JSON object that the host has validated with the schema of the
// manifest, and completed with its defaults. Methods find a value by a dotted path ("tls.server.name"); a
// number is an index into an array. If there is no value, they return the fallback. If the value has
// another type, they return the fallback and keep the error, which fails the attempt.
type Config struct {
	doc []byte
	err error
}

// NewConfig returns the configuration in doc, a JSON object.
func NewConfig(doc []byte) (*Config, error) {
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	if !abi.Valid(doc) || strings.TrimLeft(string(doc), " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("config must be a JSON object")
	}
	return &Config{doc: doc}, nil
}

// Err returns the first error of the other methods, or nil.
func (c *Config) Err() error { return c.err }

// Has reports whether there is a value other than null at path.
func (c *Config) Has(path string) bool {
	_, ok := c.lookup(path)
	return ok
}

// JSON returns the value at path as JSON, nil if there is none. It must not be modified.
func (c *Config) JSON(path string) []byte {
	v, _ := c.lookup(path)
	return slices.Clip(v.json)
}

// String returns the string at path. It also returns a number or bool, as a string.
func (c *Config) String(path, fallback string) string {
	return get(c, path, fallback, "a string", func(text string) (string, error) { return text, nil })
}

// Int returns the integer at path.
func (c *Config) Int(path string, fallback int) int {
	return get(c, path, fallback, "an integer", strconv.Atoi)
}

// Float returns the number at path.
func (c *Config) Float(path string, fallback float64) float64 {
	return get(c, path, fallback, "a number", func(text string) (float64, error) {
		return strconv.ParseFloat(text, 64)
	})
}

// Bool returns the bool at path.
func (c *Config) Bool(path string, fallback bool) bool {
	return get(c, path, fallback, "a bool", strconv.ParseBool)
}

// Duration returns the duration at path, a string such as "1m30s".
func (c *Config) Duration(path string, fallback time.Duration) time.Duration {
	return get(c, path, fallback, "a duration", parseDuration)
}

// parseDuration is a faster time.ParseDuration, which takes a guest longer than the rest of a look-up. Most
// durations are a number with one unit.
func parseDuration(text string) (time.Duration, error) {
	n, i := time.Duration(0), 0
	for ; i < min(len(text), 6) && '0' <= text[i] && text[i] <= '9'; i++ {
		n = n*10 + time.Duration(text[i]-'0')
	}
	switch text[i:] {
	case "ms":
		n *= time.Millisecond
	case "s":
		n *= time.Second
	case "m":
		n *= time.Minute
	case "h":
		n *= time.Hour
	default:
		i = 0
	}
	if i == 0 {
		return time.ParseDuration(text)
	}
	return n, nil
}

// Strings returns the list of strings at path.
func (c *Config) Strings(path string) []string {
	v, ok := c.lookup(path)
	if !ok {
		return nil
	}
	items, ok := abi.Strings(v.json)
	if !ok {
		c.fail(path, v.json, "a list of strings")
	}
	return items
}

func (c *Config) fail(path string, value []byte, want string) {
	if c.err == nil {
		c.err = fmt.Errorf("config: %s: must be %s, not %.60s", path, want, value)
	}
}

// Lookup returns the value at a dotted path of any JSON document: a string without its quotes, any other
// value as JSON. In a guest it costs a fraction of encoding/json. ok is false if there is no value or it is
// null.
func Lookup(doc []byte, path string) (text string, ok bool) {
	value, ok := abi.Lookup(doc, path)
	return abi.Text(value), ok
}

// ValidJSON reports whether doc is a single JSON document.
func ValidJSON(doc []byte) bool { return abi.Valid(doc) }

// value is a value of a config.
type value struct {
	json []byte
	text string // a string without its quotes, any other value as JSON
}

// find returns the value at path.
func (c *Config) find(path string) (value, bool) {
	json, ok := abi.Lookup(c.doc, path)
	return value{json, abi.Text(json)}, ok
}

func get[T any](c *Config, path string, fallback T, want string, parse func(string) (T, error)) T {
	v, ok := c.lookup(path)
	if !ok {
		return fallback
	}
	parsed, err := parse(v.text)
	if err != nil || v.json[0] == '{' || v.json[0] == '[' {
		c.fail(path, v.json, want)
		return fallback
	}
	return parsed
}
