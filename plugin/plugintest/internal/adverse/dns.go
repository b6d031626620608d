package adverse

import (
	"fmt"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// addRecord adds the variants of an item of host.dns. only reports whether it is the only one: the plugin may
// otherwise use another record.
func (p *Plan) addRecord(index int, n *yamlpos.Node, only bool) {
	if yamlpos.Field(n, "behaviour") != nil {
		return
	}
	stream := len(p.Streams)
	p.Streams = append(p.Streams, Stream{
		Name: fmt.Sprintf("host.dns[%d]", index), Broken: behaviour("dns", index, "refuse"), Stalls: []Edit{behaviour("dns", index, "timeout"), func(*yamlpos.Node) {}},
	})
	rule := Any
	if only {
		rule = NoSuccess
	}
	add := func(family testfile.Fault, what string, rule Rule, edit Edit) {
		p.Variants = append(p.Variants, Variant{Family: family, What: what, Rule: rule, Stream: stream, Edit: edit})
	}
	code := valueOf(yamlpos.Field(n, "rcode"))
	for _, other := range []string{"SERVFAIL", "NXDOMAIN", "REFUSED"} {
		if other != code {
			add(testfile.RCode, "the server answers "+other, rule, at("dns", index, func(n *yamlpos.Node) {
				testfile.SetField(n, "answers", nil)
				testfile.SetField(n, "rcode", scalar(other))
			}))
		}
	}
	if len(list(n, "answers")) > 0 {
		add(testfile.RCode, "the answer has no records", rule, at("dns", index, func(n *yamlpos.Node) { testfile.SetField(n, "answers", nil) }))
	}
	add(testfile.Truncated, "the answer does not fit UDP", Same, at("dns", index, func(n *yamlpos.Node) { testfile.SetField(n, "behaviour", scalar("truncate")) }))
	for _, b := range []string{"refuse", "reset", "timeout", "garbage"} {
		add(family(b), "the server has the behaviour "+b, rule, behaviour("dns", index, b))
	}
}
