package testfile_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

func TestRedactKeepsNumbers(t *testing.T) {
	c := testfile.Case{Config: []byte(`{"list":["my 12345"],"n":12345678901234567890,"pin":12345,"rate":1.50}`)}
	c.Redact(strings.NewReplacer("12345", "[redacted]").Replace)
	want := `{"list":["my xxxxx"],"n":12345678901234567890,"pin":11111,"rate":1.50}`
	if string(c.Config) != want {
		t.Errorf("got %s, want %s", c.Config, want)
	}
}
