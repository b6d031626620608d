//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
)

// routes probes an address from a network namespace: without a route, and behind a router without a route,
// which answers at once that the network is unreachable.
const routes = `set -e
prober=$1
ip link set lo up
unshare -n sleep 60 &
router=$!
trap 'kill $router' EXIT
while [ "$(readlink /proc/$router/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link add name host0 type veth peer name router0
ip link set router0 netns $router
ip addr add 10.9.0.1/24 dev host0
ip link set host0 up
nsenter -t $router -n sh -c 'ip addr add 10.9.0.2/24 dev router0; ip link set router0 up
	echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'
ask() { "$prober" probe "$@" --timeout 5s -o json 2>/dev/null || true; }
ask tcp 172.20.0.7:80
ask http http://172.20.0.7/
ip route add default via 10.9.0.2
ask tcp 172.20.0.7:80
ask http http://172.20.0.7/
`

// TestNoRouteOfHostAndOfRouter checks that a missing route of the host does not count as a failure of the
// target, and that a missing route of a router does, although the error of the dial is the same.
func TestNoRouteOfHostAndOfRouter(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "unshare", "-n", "sh", "-c", routes, "sh", "bin/prober")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for i, want := range []string{"unknown", "unknown", "failure", "failure"} {
		var got struct{ Result, Output, Error string }
		if err := d.Decode(&got); err != nil {
			t.Fatalf("answer %d: %v in %s", i, err, out)
		}
		if got.Result != want {
			t.Errorf("answer %d: got %+v, want %s", i, got, want)
		}
	}
}
