package sidecar_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// Any number of connections with incomplete requests does not block the kubelet.
func TestCrowdDoesNotBlockKubelet(t *testing.T) {
	address := newRig(t, fmt.Sprintf(web, ""), probetest.NewHandler(probetest.Answer(probe.Success, "fine"))).serve(t)
	for i := range 300 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if i%2 == 0 {
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHo"))
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 4 * time.Second} // shorter than the lifetime of those connections
	for range 20 {
		res, err := client.Get("http://" + address + "/web/readiness")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("got %s", res.Status)
		}
	}
}
