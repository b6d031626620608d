package tcpprobe

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

func TestConnectToPortMinusOne(t *testing.T) {
	t.Run("#139 port -1 is a failure and no error", func(t *testing.T) {
		h := &bound{connector: network.NewConnector(nil, 0)}
		conn, err := h.connector.Connect(t.Context(), network.Endpoint{Host: "127.0.0.1", Port: -1})
		got, err := judge(t.Context(), conn, err)
		if err != nil || got.Result != probe.Failure || !strings.Contains(got.Output, "-1") {
			t.Errorf("got %v, output %q, error %v; want failure", got.Result, got.Output, err)
		}
	})
}
