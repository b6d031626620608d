package plugin_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/daeace23/prober/plugin"
)

// Of several mistakes each has its place: a message that is another each time is news each
// time, and no two ways to run a plugin agree on it.
func TestMistakesHaveAnOrder(t *testing.T) {
	s, err := plugin.NewSchema([]byte(`{"additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"properties":{"d":false}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"a":1,"b":2,"c":{"d":3},"x":4,"y":5,"z":6}`: "config.a: got number, want string\nconfig.b: got number, want string\n" +
			"config.c.d: false schema\nconfig: additional properties 'x', 'y', 'z' not allowed",
		`{"a":1e999,"b":1e999,"c":{"d":1e999}}`: "config.a: the number 1e999 is out of range",
	} {
		for range 50 {
			if _, err := s.Apply([]byte(config)); err == nil || err.Error() != want {
				t.Fatalf("%s: got %v, want %s", config, err, want)
			}
		}
	}
	said := make(map[string]bool)
	for range 50 {
		_, err := plugin.NewSchema([]byte(`{"properties":{"a":{"type":1},"b":{"minLength":"2"},"c":{"required":3}}}`))
		said[fmt.Sprint(err)] = true
	}
	if len(said) != 1 {
		t.Errorf("of one schema it is said: %q", slices.Sorted(maps.Keys(said)))
	}
}
