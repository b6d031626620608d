package builtin_test

import (
	"testing"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
)

func TestBindErrorsNameTheField(t *testing.T) {
	run, err := execprobe.New(execprobe.Config{Runner: &builtin.HostRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	web, tcp, health := httpprobe.New(httpprobe.Config{}), tcpprobe.New(tcpprobe.Config{}), grpcprobe.New(grpcprobe.Config{})
	_, noCommand := run.Bind(execprobe.Action{})
	_, scheme := web.Bind(httpprobe.Action{Port: 80, Scheme: "gopher"})
	_, h2c := web.Bind(httpprobe.Action{Port: 443, Scheme: "HTTPS", UnencryptedHTTP2: true})
	_, webPort := web.Bind(httpprobe.Action{Port: 65536})
	_, tcpPort := tcp.Bind(tcpprobe.Action{Port: -1})
	_, healthPort := health.Bind(grpcprobe.Action{Port: 70000})
	for want, err := range map[string]error{
		"command: required": noCommand,
		`scheme: unknown scheme "gopher"; known: HTTP, HTTPS`: scheme,
		"protocol: HTTP2 is for scheme HTTP, not HTTPS":       h2c,
		"port: invalid port number: 65536":                    webPort,
		"port: invalid port number: -1":                       tcpPort,
		"port: invalid port number: 70000":                    healthPort,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
