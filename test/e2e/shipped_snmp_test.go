//go:build e2e

package e2e

import "testing"

// startSNMP starts an agent with the community opensesame, and returns its address. It needs some time before it answers.
func startSNMP(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	config := publicConfig(t, "rocommunity opensesame 127.0.0.1\nsysName core-1\nsysServices 72\n")
	starts(t, unprivileged(t, "env", "SNMP_PERSISTENT_DIR="+dataFolder(t), "snmpd", "-f", "-Lo", "-C", "-c", config, "udp:"+address))
	return address
}

func TestShippedSNMP(t *testing.T) {
	t.Parallel()
	address := startSNMP(t)
	const community = `"community":"opensesame"`
	await(t, "the agent to answer", func() bool {
		v, _ := probeShipped(t, "snmp", address, `{`+community+`}`)
		return v.Result == "success"
	})
	runShipped(t, "snmp", address, []shippedCase{
		{"uptime", `{` + community + `}`, "success", "1.3.6.1.2.1.1.3.0 is "},
		{"version 1", `{"version":"v1",` + community + `}`, "success", "1.3.6.1.2.1.1.3.0 is "},
		{"name of the system", `{"oid":"1.3.6.1.2.1.1.5.0","contains":"core",` + community + `}`, "success", `1.3.6.1.2.1.1.5.0 is "core-1"`},
		{"another name", `{"oid":"1.3.6.1.2.1.1.5.0","value":{"equals":"edge"},` + community + `}`, "failure", `the value is "core-1", want "edge"`},
		{"number", `{"oid":"1.3.6.1.2.1.1.7.0","value":{"max":71},` + community + `}`, "failure", "the value is 72, above 71"},
		{"object identifier", `{"oid":"1.3.6.1.2.1.1.2.0","contains":"1.3.6.1.4.1.8072",` + community + `}`, "success", `is "1.3.6.1.4.1.8072.`},
		{"no such instance", `{"oid":"1.3.6.1.2.1.1.5.1",` + community + `}`, "failure", "has no value: no such"},
		{"no such name of version 1", `{"version":"v1","oid":"1.3.6.1.2.1.1.5.1",` + community + `}`, "failure", "no such name (2)"},
	})
	runShipped(t, "snmp", freeAddress(t), []shippedCase{{"stopped agent", `{` + community + `}`, "failure", "refused"}})
	t.Run("wrong community", func(t *testing.T) {
		v, code := probePluginIn(t, t.TempDir(), "snmp", address, `{"community":"guess"}`, "--timeout", "1s")
		want(t, v, code, "failure", "no answer, as to a wrong community")
	})
}
