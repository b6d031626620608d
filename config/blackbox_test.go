package config_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
)

func TestBlackboxTargets(t *testing.T) {
	const all = "blackbox: {targets: [10.0.0.0/8, 192.0.2.7, 'fd00::/8', Shop.example, '*.db.example']}\n"
	for _, c := range []struct {
		text, host string
		want       bool
	}{
		{"", "anything.example", true},
		{"blackbox: {tokenFile: t}\n", "anything.example", true},
		{all, "10.1.2.3", true},
		{all, "::ffff:10.1.2.3", true},
		{all, "11.1.2.3", false},
		{all, "192.0.2.7", true},
		{all, "192.0.2.8", false},
		{all, "fd00::1", true},
		{all, "fe80::1%eth0", false},
		{all, "shop.example", true},
		{all, "SHOP.example.", true},
		{all, "www.shop.example", false},
		{all, "a.db.example", true},
		{all, "b.a.db.example", true},
		{all, "db.example", false},
		{all, "xdb.example", false},
		{all, "10.1.2.3.example", false},
		{all, "0x0a010203", false},
		{all, "", false},
	} {
		a, err := config.Parse("f", []byte(head+c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Blackbox.Allows(c.host); got != c.want {
			t.Errorf("%q with %q: %v, want %v", c.host, c.text, got, c.want)
		}
	}
}

func TestBlackboxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{targets: []}":               "f:3: blackbox.targets: must not be empty",
		"{targets: ['http://a']}":     "f:3: blackbox.targets[0]: ",
		"{targets: ['a:80']}":         "f:3: blackbox.targets[0]: ",
		"{targets: ['*.10.0.0.0/8']}": "f:3: blackbox.targets[0]: must have a domain name",
		"{targets: ['*']}":            "f:3: blackbox.targets[0]: ",
		"{targets: ['10.0.0.1/8']}":   "must be 10.0.0.0/8",
		"{tokenFile: ''}":             "f:3: blackbox.tokenFile: ",
		"{token: a}":                  "f:3: blackbox.token: ",
	} {
		if _, err := config.Parse("f", []byte(head+"blackbox: "+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
