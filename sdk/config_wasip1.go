package sdk

// found caches the values that attempts with the same request have looked up in its config. A search takes
// longer than the rest of a short call.
var found struct {
	config *Config // nil in the first attempt with a request
	values []foundValue
}

type foundValue struct {
	path string
	value
	ok bool
}

const maxFound = 16 // maximum number of values; a plugin may look up more

func (c *Config) lookup(path string) (value, bool) {
	if c != found.config {
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
