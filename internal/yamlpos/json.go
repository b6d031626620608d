package yamlpos

import (
	"encoding/json"
	"errors"
)

// JSON returns a reader of any value, as JSON.
func (d *Decoder) JSON(to *[]byte) Reader {
	return func(n *Node, path string) {
		if d.frame != nil {
			d.frame.acceptAny(n)
			return
		}
		if doc, ok := d.json(n, path); ok {
			*to = doc
		}
	}
}

// Object returns a reader of a mapping, as JSON.
func (d *Decoder) Object(to *[]byte) Reader {
	return func(n *Node, path string) {
		if n.Kind != Mapping {
			d.Errorf(n, path, "must be a mapping, not %s", Kind(n))
			return
		}
		d.JSON(to)(n, path)
	}
}

func (d *Decoder) json(n *Node, path string) ([]byte, bool) {
	value, ok := d.value(n, path)
	if !ok {
		return nil, false
	}
	doc, err := json.Marshal(value)
	if err != nil {
		d.Error(n, path, err)
	}
	return doc, err == nil
}

// value returns n as encoding/json would decode it. If JSON cannot represent the value, it adds an error and ok
// is false.
func (d *Decoder) value(n *Node, path string) (value any, ok bool) {
	ok = true
	switch n.Kind {
	case Mapping:
		object := make(map[string]any, len(n.Content)/2)
		d.Entries(n, path, func(key, value *Node, path string) {
			v, is := d.value(value, path)
			object[key.Value], ok = v, ok && is
		})
		return object, ok
	case List:
		list := make([]any, 0, len(n.Content))
		d.Items(n, path, func(n *Node, path string) {
			v, is := d.value(n, path)
			list, ok = append(list, v), ok && is
		})
		return list, ok
	}
	switch n.Tag {
	case "!!null", "!!bool", "!!int", "!!float":
		err := n.Decode(&value)
		if err == nil {
			_, err = json.Marshal(value) // infinity and NaN
		}
		if err != nil {
			d.Error(n, path, errors.New("must be a value that JSON can represent"))
		}
		return value, err == nil
	default:
		return n.Value, true
	}
}
