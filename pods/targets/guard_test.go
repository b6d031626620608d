package targets_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
)

// A service, a command or a host name cannot lead the agent to the metadata service of its host.
func TestTargetsDoNotLeadToMetadata(t *testing.T) {
	const metadata, mapped, link, public = "169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1", "192.0.2.1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"targets": ["169.254.169.254:80"]}]`))
	}))
	defer server.Close()
	r := newRig(t, `modules: [{name: tcp, probe: {tcpSocket: {}}}]
targets:
- {name: http, module: tcp, http: [{url: "`+server.URL+`"}]}
- {name: file, module: tcp, file: [list.json]}
- {name: static, module: tcp, static: ["169.254.169.254:81", "shop.example:80"]}
`)
	r.write("list.json", `[{"targets": ["169.254.169.254:82", "[fe80::1]:80", "other.example:80"]}]`)
	all := r.generate()
	for pod, allowed := range map[string]string{
		"http-169-254-169-254-80":   "",
		"static-169-254-169-254-81": metadata,
		"file-169-254-169-254-82":   metadata,
		"file-fe80-1-80":            link,
		"static-shop-example-80":    "",
		"file-other-example-80":     "",
	} {
		d := all[pod]
		if d == nil {
			t.Errorf("no pod %s", pod)
			continue
		}
		for _, addr := range []string{metadata, mapped, link, public} {
			err := r.source.CheckTarget(string(d.Pod().UID), netns.To{Addr: netip.MustParseAddr(addr), Port: 80})
			if ok := addr == allowed || addr == public; ok != (err == nil) || err != nil && !strings.Contains(err.Error(), addr+" is a link-local or metadata address") {
				t.Errorf("%s to %s: %v", pod, addr, err)
			}
		}
		if err := r.source.CheckTarget(string(d.Pod().UID), netns.To{Host: "shop.example"}); err != nil {
			t.Errorf("%s: %v", pod, err)
		}
	}
	if err := r.source.CheckTarget("of a manifest", netns.To{Addr: netip.MustParseAddr(metadata)}); err != nil {
		t.Error(err)
	}
}
