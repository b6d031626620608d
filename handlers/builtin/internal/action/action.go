// Package action decodes the configs of the built-in handlers, the JSON of the actions in a v1.Probe.
package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// decoder decodes one config after another. It is pooled, because a new decoder takes 1 KB: such allocations
// between the long-lived bound handlers would fragment the heap.
type decoder struct {
	config bytes.Reader
	json   *json.Decoder
}

var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.json = json.NewDecoder(&d.config)
	d.json.DisallowUnknownFields()
	return d
}}

// Decode decodes config, one JSON object, into action, the pointer to a struct. Unknown fields
// are errors.
func Decode(config []byte, action any) error {
	d := decoders.Get().(*decoder)
	d.config.Reset(config)
	if err := d.json.Decode(action); err != nil { // d is not returned to the pool, because its read position is unknown
		return fmt.Errorf("config: %w", err)
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return errors.New("config: more than one JSON value")
	}
	d.config.Reset(nil)
	decoders.Put(d)
	return nil
}

// Port is the port of an action: a number or a string. The zero value means no port.
type Port struct {
	number int32
	text   string // valid if isText
	isText bool
}

// Number returns a Port with a number.
func Number(n int32) Port { return Port{number: n} }

// Text returns a Port with a string, which is a name or a decimal number.
func Text(s string) Port { return Port{text: s, isText: true} }

// NumberOrName returns a Port with a number, or with a name if number is 0. A number outside of 0 to
// 65535 is an error.
func NumberOrName(number int, name string) (Port, error) {
	switch {
	case number < 0 || number > 65535:
		return Port{}, fmt.Errorf("port: invalid port number: %d", number)
	case number == 0 && name != "":
		return Text(name), nil
	default:
		return Number(int32(number)), nil
	}
}

// Number returns the number of p. ok is false if p is a string.
func (p Port) Number() (n int, ok bool) { return int(p.number), !p.isText }

// Text returns the string of p, or "" if p is a number.
func (p Port) Text() string { return p.text }

// UnmarshalJSON implements [json.Unmarshaler]. Like an intstr.IntOrString, a port is a 32-bit JSON number
// or a string.
func (p *Port) UnmarshalJSON(value []byte) error {
	*p = Port{isText: value[0] == '"'}
	if p.isText {
		return json.Unmarshal(value, &p.text)
	}
	return json.Unmarshal(value, &p.number)
}
