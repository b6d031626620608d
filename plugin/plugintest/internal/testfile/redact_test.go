package testfile_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/redact"
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

func TestRedactConfigNames(t *testing.T) {
	for config, want := range map[string]string{
		`{"tokens":[{"hunter2-token":"alice"}]}`:              `{"tokens":[{"xxxxxxxxxxxxx":"alice"}]}`,
		`{"hunter2-token":"hunter2-token"}`:                   `{"hunter2-token":"xxxxxxxxxxxxx"}`, // a name of the schema that is also the password
		`{"my hunter2-token":"is hunter2-token","open":true}`: `{"my hunter2-token":"is xxxxxxxxxxxxx","open":true}`,
	} {
		c := testfile.Case{Config: []byte(config)}
		c.Redact(strings.NewReplacer("hunter2-token", "[redacted]").Replace)
		if string(c.Config) != want {
			t.Errorf("%s: got %s, want %s", config, c.Config, want)
		}
	}
}

// Bytes of a protocol keep their length, so that the session replays.
func TestRedactTextOfProtocols(t *testing.T) {
	c := testfile.Case{Config: []byte(`{"password":"hunter2ü"}`)}
	text := c.Redact(redact.New([]string{"hunter2ü"}).Replace)
	for said, want := range map[string]string{
		"LOGIN hunter2ü": "LOGIN xxxxxxxxx",
		"h\x00u\x00n\x00t\x00e\x00r\x002\x00\xfc\x00!":                                                     strings.Repeat("x\x00", 9) + "!",
		"\x00h\x00u\x00n\x00t\x00e\x00r\x002\x00\xfc!":                                                     strings.Repeat("\x00x", 9) + "!",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("u:hunter2ü")):                                 "Basic " + base64.StdEncoding.EncodeToString([]byte("u:xxxxxxxxx")),
		"NTLM " + base64.StdEncoding.EncodeToString([]byte("h\x00u\x00n\x00t\x00e\x00r\x002\x00\xfc\x00")): "NTLM " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x\x00", 9))),
		"hex 3a68756e74657232c3bc0a":                                                                       "hex 3a" + strings.Repeat("78", 9) + "0a",
		"HEX 3A68756E74657232C3BC":                                                                         "HEX 3A" + strings.Repeat("78", 9),
		"p=hunter2%C3%BC&q":                                                                                "p=xxxxxxxxx&q",
		"nothing":                                                                                          "nothing",
	} {
		if got := text(said); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}
