package abi

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/daeace23/prober/probe"
)

// field is one field of a JSON object, for encoding and decoding. to points to its value. appendValue and
// scanner.value define the possible types. []field means an object.
type field struct {
	name string
	to   any
}

// list is an array of objects.
type list struct {
	len func() int
	at  func(i int) []field
	add func() ([]field, error)
}

// listOf returns a list for a slice. most is the maximum number of items; 0 means no limit.
func listOf[T any](in *[]T, most int, fields func(*T) []field) list {
	at := func(i int) []field { return fields(&(*in)[i]) }
	return list{len: func() int { return len(*in) }, at: at, add: func() ([]field, error) {
		if most > 0 && len(*in) >= most {
			return nil, fmt.Errorf("more than %d", most)
		}
		*in = append(*in, *new(T))
		return at(len(*in) - 1), nil
	}}
}

// document is the constraint for a pointer to a T that is encoded as a JSON object.
type document[T any] interface {
	*T
	fields() []field
}

// Append appends doc to b as JSON.
func Append[T any, P document[T]](b []byte, doc P) []byte { return appendObject(b, doc.fields()) }

func appendObject(b []byte, fields []field) []byte {
	b = append(b, '{')
	for i := range fields {
		b = appendValue(b, fields[i].name, fields[i].to)
	}
	return append(b, '}')
}

// appendValue appends a field. It omits empty strings, arrays and maps, the integer 0, and false.
func appendValue(b []byte, name string, from any) []byte {
	switch v := from.(type) {
	case *string:
		return appendField(b, name, *v)
	case *int:
		return appendInt(b, name, int64(*v))
	case *int64:
		return appendInt(b, name, *v)
	case *uint32:
		return appendInt(b, name, int64(*v))
	case *bool:
		if *v {
			return append(appendName(b, name), "true"...)
		}
	case *float64:
		return appendFloat(appendName(b, name), *v)
	case *time.Duration:
		return appendFloat(appendName(b, name), v.Seconds())
	case *handshake:
		if v.Peer != nil {
			return appendFloat(appendName(b, name), v.TLS.Seconds())
		}
	case *time.Time:
		return appendInt(b, name, v.Unix())
	case *probe.Kind:
		return appendField(b, name, v.String())
	case *probe.Result:
		return appendField(b, name, v.String())
	case *verdict:
		if v.HasResult {
			return appendField(b, name, v.Result.String())
		}
	case *[]string:
		return appendStrings(b, name, *v)
	case *map[string]string:
		return appendMap(b, name, *v)
	case *[]byte:
		if len(*v) > 0 {
			return append(appendName(b, name), *v...)
		}
	case list:
		return appendList(b, name, v.len(), func(b []byte, i int) []byte { return appendObject(b, v.at(i)) })
	case **TLSInfo:
		if *v != nil {
			return appendObject(appendName(b, name), (*v).fields())
		}
	case []field:
		return appendObject(appendName(b, name), v)
	}
	return b
}

// appendName appends a field's name, after a comma if one is needed.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(AppendString(b, name), ':')
}

// appendField appends a string field, unless text is empty.
func appendField(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return AppendString(appendName(b, name), text)
}

// appendInt appends an integer field, unless n is 0.
func appendInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), n, 10)
}

// appendList appends an array of n items, unless n is 0.
func appendList(b []byte, name string, n int, item func([]byte, int) []byte) []byte {
	if n == 0 {
		return b
	}
	b = append(appendName(b, name), '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	return append(b, ']')
}

func appendStrings(b []byte, name string, strings []string) []byte {
	return appendList(b, name, len(strings), func(b []byte, i int) []byte { return AppendString(b, strings[i]) })
}

// appendMap appends an object of strings, unless it is empty.
func appendMap(b []byte, name string, strings map[string]string) []byte {
	if len(strings) == 0 {
		return b
	}
	b = append(appendName(b, name), '{')
	for _, key := range slices.Sorted(maps.Keys(strings)) {
		b = AppendString(appendName(b, key), strings[key])
	}
	return append(b, '}')
}

// Decode reads a document. It ignores unknown fields.
func Decode[T any, P document[T]](data []byte) (T, error) {
	var v T
	s := scanner{data: data}
	err := s.document(P(&v).fields())
	return v, err
}

// document reads an object, and returns an error if anything follows it.
func (s *scanner) document(fields []field) error {
	if err := s.knownFields(fields); err != nil {
		return err
	}
	return s.end()
}

// knownFields reads an object with the given fields. Others are ignored, or an error if s is strict.
func (s *scanner) knownFields(fields []field) error {
	return s.object(func(name string) error {
		for i := range fields {
			if fields[i].name == name {
				return inField(name, s.value(fields[i].to))
			}
		}
		if s.strict {
			return inField(name, errors.New("the field is unknown"))
		}
		return inField(name, s.skip())
	})
}

// inField adds the name of a field to err, if err is not nil. It is small enough to be inlined.
func inField(name string, err error) error {
	if err == nil {
		return nil
	}
	return errorIn(name, err)
}

func errorIn(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// value reads the value of a field.
func (s *scanner) value(to any) (err error) {
	switch v := to.(type) {
	case *string:
		*v, err = s.str()
	case *int:
		n, intErr := s.int()
		*v, err = int(n), intErr
	case *int64:
		*v, err = s.int()
	case *uint32:
		n, intErr := s.int()
		*v, err = uint32(min(max(n, 0), math.MaxUint32)), intErr
	case *bool:
		*v, err = s.bool()
	case *float64:
		*v, err = s.float()
	case *time.Duration:
		*v, err = s.seconds()
	case *handshake:
		v.TLS, err = s.seconds()
	case *time.Time:
		n, intErr := s.int()
		*v, err = time.Unix(n, 0), intErr
	case *probe.Kind:
		text, strErr := s.str()
		if err = strErr; err == nil {
			*v, err = probe.ParseKind(text)
		}
	case *probe.Result:
		err = s.result(v)
	case *verdict:
		v.HasResult = true
		err = s.result(&v.Result)
	case *[]string:
		return s.strings(v)
	case *map[string]string:
		return s.stringMap(v)
	case *[]byte:
		return s.rawObject(v)
	case list:
		return s.list(v)
	case **TLSInfo:
		*v = new(TLSInfo)
		return s.knownFields((*v).fields())
	case []field:
		return s.knownFields(v)
	}
	return err
}

func (s *scanner) bool() (bool, error) {
	if s.next() == 'f' {
		return false, s.literal("false")
	}
	return true, s.literal("true")
}

func (s *scanner) seconds() (time.Duration, error) {
	f, err := s.float()
	return time.Duration(math.Round(f * float64(time.Second))), err
}

func (s *scanner) result(to *probe.Result) error {
	text, err := s.str()
	if err != nil {
		return err
	}
	return to.UnmarshalText([]byte(text))
}

func (s *scanner) strings(to *[]string) error {
	*to = (*to)[:0]
	return s.array(func(int) error {
		text, err := s.str()
		*to = append(*to, text)
		return err
	})
}

func (s *scanner) stringMap(to *map[string]string) error {
	return s.object(func(name string) error {
		text, err := s.str()
		if *to == nil {
			*to = make(map[string]string)
		}
		(*to)[name] = text
		return inField(name, err)
	})
}

// rawObject reads an object without decoding it. The result refers to the bytes of the document.
func (s *scanner) rawObject(to *[]byte) (err error) {
	if s.next() != '{' {
		return s.fail("an object")
	}
	*to, err = s.raw()
	return err
}

func (s *scanner) list(to list) error {
	return s.array(func(int) error {
		fields, err := to.add()
		if err == nil {
			err = s.knownFields(fields)
		}
		return err
	})
}
