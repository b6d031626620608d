package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
)

func TestSLO(t *testing.T) {
	got, err := config.Parse("f", []byte(head+`slo:
- name: shop
  match: [{namespace: shop, labels: tier=web}, {pod: "cart-*"}]
  kinds: [readiness, liveness]
  objective: 99.95
  window: 7d
  maintenance: count
- {name: all, objective: 99}
`))
	if err != nil {
		t.Fatal(err)
	}
	shop, all := &got.SLO[0], &got.SLO[1]
	if shop.Objective != 99.95 || shop.Window != 7*24*time.Hour || shop.Maintenance != config.UptimeCount {
		t.Errorf("%+v", shop)
	}
	if all.Objective != 99 || all.Window != 30*24*time.Hour || all.Maintenance != config.UptimeExclude {
		t.Errorf("%+v", all)
	}
	for _, c := range []struct {
		slo  *config.SLO
		of   config.ProbeFacts
		want bool
	}{
		{shop, config.ProbeFacts{Namespace: "shop", Kind: "liveness", Labels: map[string]string{"tier": "web"}}, true},
		{shop, config.ProbeFacts{Namespace: "shop", Kind: "startup", Labels: map[string]string{"tier": "web"}}, false},
		{shop, config.ProbeFacts{Namespace: "shop", Kind: "readiness"}, false},
		{shop, config.ProbeFacts{Pod: "cart-1", Kind: "readiness"}, true},
		{all, config.ProbeFacts{Pod: "cart-1", Kind: "readiness"}, true},
		{all, config.ProbeFacts{Pod: "cart-1", Kind: "liveness"}, false},
	} {
		if c.slo.Selects(&c.of) != c.want {
			t.Errorf("%s selects %+v: %t", c.slo.Name, c.of, !c.want)
		}
	}
	other := *shop
	if other.Name, other.Objective, other.Line = "cart", 90, 1; !shop.SameTime(&other) || shop.SameTime(all) {
		t.Error("SameTime")
	}
}

func TestSLOErrors(t *testing.T) {
	var many strings.Builder
	for i := range config.MaxSLOs + 1 {
		fmt.Fprintf(&many, "{name: a%d, objective: 99}, ", i)
	}
	for text, want := range map[string]string{
		"[{objective: 99}]":            "slo[0].name: the field is required",
		"[{name: a}]":                  "slo[0].objective: the field is required",
		"[{name: A b, objective: 99}]": `slo[0].name: "A b" is not a name: must be at most 63 lower-case letters, digits and dashes`,
		"[{name: a, objective: 99}, {name: a, objective: 9}]":   `slo[1].name: "a" is set twice, first on line 3`,
		"[{name: a, objective: 100}]":                           "slo[0].objective: ",
		"[{name: a, objective: NaN}]":                           "must be a percentage above 0 and below 100, such as 99.9",
		"[{name: a, objective: 99, window: 93d}]":               "must be hours or days, at most 92d, such as 30d",
		"[{name: a, objective: 99, window: 90m}]":               "must be hours or days, at most 92d, such as 30d",
		"[{name: a, objective: 99, window: month}]":             "must be a duration such as 30d, 12h or 90m",
		"[{name: a, objective: 99, kinds: []}]":                 "slo[0].kinds: must have at least one kind",
		"[{name: a, objective: 99, kinds: [ready]}]":            "slo[0].kinds[0]: ",
		"[{name: a, objective: 99, kinds: [startup, startup]}]": `slo[0].kinds[1]: "startup" is set twice`,
		"[{name: a, objective: 99, maintenance: no}]":           "slo[0].maintenance: ",
		"[{name: a, objective: 99, match: [{}]}]":               "slo[0].match[0]: must have at least one field",
		"[" + many.String() + "]":                               "slo: must have at most 100 items",
	} {
		_, err := config.Parse("f", []byte(head+"slo: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v\nwant %s", text, err, want)
		}
	}
}
