package schema_test

import (
	"fmt"

	"github.com/daeace23/prober/plugin/schema"
)

// Apply checks a config and adds the defaults of the schema.
func ExampleSchema_Apply() {
	s, err := schema.New([]byte(`{
		"type": "object", "additionalProperties": false, "required": ["user"],
		"properties": {"user": {"type": "string"}, "maxLag": {"type": "string", "default": "5s"}}
	}`))
	if err != nil {
		panic(err)
	}
	config, err := s.Apply([]byte(`{"user": "probe"}`))
	fmt.Println(string(config), err)

	_, err = s.Apply([]byte(`{"user": "probe", "maxLag": 5}`))
	fmt.Println(err)
	// Output:
	// {"maxLag":"5s","user":"probe"} <nil>
	// config.maxLag: got number, want string
}
