// Package action decodes the configs of the built-in handlers: the JSON of the actions of a
// v1.Probe.
package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// decoder reads one config after the other. A new one for each would take 1 KB, which would lie
// between the handlers that are bound, and keep memory there.
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
	if err := d.json.Decode(action); err != nil { // d is not used again: what is left of config is unknown
		return fmt.Errorf("config: %w", err)
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return errors.New("config: more than one JSON value")
	}
	d.config.Reset(nil)
	decoders.Put(d)
	return nil
}

// Port is the port of an action: a number or a text. The zero value is no port.
type Port struct {
	number int32
	text   string // used if isText
	isText bool
}

// Number returns the port with a number.
func Number(n int32) Port { return Port{number: n} }

// Text returns the port with a text, which is a name or a decimal number.
func Text(s string) Port { return Port{text: s, isText: true} }

// NumberOrName returns the port with a number, or with a name if number is 0. Numbers that no
// port has are errors.
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

// Number returns the number of p; ok is false if p is a text.
func (p Port) Number() (n int, ok bool) { return int(p.number), !p.isText }

// Text returns the text of p, "" if p is a number.
func (p Port) Text() string { return p.text }

// UnmarshalJSON implements [json.Unmarshaler]. Like an intstr.IntOrString, a port is a JSON
// number of 32 bits or a string.
func (p *Port) UnmarshalJSON(value []byte) error {
	*p = Port{isText: value[0] == '"'}
	if p.isText {
		return json.Unmarshal(value, &p.text)
	}
	return json.Unmarshal(value, &p.number)
}
