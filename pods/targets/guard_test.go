package targets_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
)

// Only a name that prober.yaml or a file lists may lead to the agent's own host.
func TestOwnName(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"targets": ["shop.example:80"]}]`))
	}))
	defer server.Close()
	r := newRig(t, `modules: [{name: tcp, probe: {tcpSocket: {}}}]
targets:
- {name: http, module: tcp, http: [{url: "`+server.URL+`"}]}
- {name: file, module: tcp, file: [list.json]}
- {name: static, module: tcp, static: ["shop.example:80"]}
`)
	r.write("list.json", `[{"targets": ["shop.example:80"]}]`)
	all := r.generate()
	for pod, own := range map[string]bool{"http-shop-example-80": false, "file-shop-example-80": true, "static-shop-example-80": true} {
		d := all[pod]
		if d == nil {
			t.Fatalf("no pod %s", pod)
		}
		uid := string(d.Pod().UID)
		if got := r.source.OwnName(uid, "shop.example"); got != own {
			t.Errorf("%s: got %v", pod, got)
		}
		if r.source.OwnName(uid, "other.example") || r.source.OwnName(uid, "") {
			t.Errorf("%s: another name is its own", pod)
		}
	}
	if r.source.OwnName("of a manifest", "shop.example") {
		t.Error("a pod that is not a target has an own name")
	}
}

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
