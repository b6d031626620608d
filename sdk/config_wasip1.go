package sdk

// found has the values that attempts with the same request have looked up in its config. A search
// takes longer than everything else in a short call.
var found struct {
	of     *Config // nil in the first attempt with a request
	values []foundValue
}

type foundValue struct {
	path string
	value
	ok bool
}

const maxFound = 16 // values; a plugin may look up any number

func (c *Config) lookup(path string) (value, bool) {
	if c != found.of {
		return c.find(path)
	}
	for i := range found.values {
		if f := &found.values[i]; f.path == path {
			return f.value, f.ok
		}
	}
	v, ok := c.find(path)
	if len(found.values) < maxFound {
		found.values = append(found.values, foundValue{path, v, ok})
	}
	return v, ok
}
