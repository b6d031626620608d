// Package guest carries out the calls of a guest: it provides the host functions, ends the guest
// at its deadline, and reads its result.
//
// Read call.go first, one call; then watchdog.go, how it ends. core.go has the functions of
// prober_v1 and how all of them are called. net.go, tls.go, http.go, dns.go, kv.go and icmp.go have
// those of a capability each. wasi.go and command.go have what a guest sees of the system.
package guest

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/echo"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Clock is the clock of guests: of their time, their waits and their deadlines.
type Clock interface {
	// Now returns the time of the clock. It is called with locks held and must not block.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed. A negative d never
	// passes, and wake may be nil. It reports whether wake may have been signalled.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// WithTimeout is context.WithTimeout with this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// SystemClock is the clock of the system.
type SystemClock struct{}

// Host is what the guests of all plugins share. Its fields are read-only. Those of wasm.Config
// are described there.
type Host struct {
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	Handshake   func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) // nil: by crypto/tls
	RoundTrip   func(req *http.Request, addr string) (*http.Response, error)
	Credentials func(plugin, name string) (*tls.Config, error)
	DNSServers  []string
	Echo        func(ctx context.Context, r echo.Request) (echo.Reply, error)
	Clock       Clock
	Rand        io.Reader
	Logger      *slog.Logger
	Interpreter bool
	Strict      bool
	Compat      probe.Compat
	Version     string

	Network egress.Network
	// Namespaces means that guests dial in the network namespace of an attempt's context.
	Namespaces bool
	Slots      *sched.Slots // of guests that compute
	Budget     *memory.Budget
	Born       time.Time // the zero of the guests' monotonic clock

	runs        runs
	nameservers nameservers // of the system
}

// Plugin is what the guests of one plugin share. Its fields are read-only, except the counters.
type Plugin struct {
	Host        *Host
	Manifest    *plugin.Manifest
	Digest      string
	Limits      plugin.Limits // in effect
	Features    []string      // of the request: the capabilities that the plugin has, and FeatureOutput
	Permissions *egress.Permissions
	Command     bool // the module is a command

	Denied atomic.Uint64 // dials that the grants did not cover
	Hits   attempt.Hits
	Fuel   atomic.Uint64 // that metered guests used, all together
}

var _ Clock = SystemClock{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Wait implements [Clock].
func (SystemClock) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var passed <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-ctx.Done():
	case <-passed:
	case <-wake:
		return true
	}
	return false
}

// WithTimeout implements [Clock].
func (SystemClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// since returns the time since t.
func (h *Host) since(t time.Time) time.Duration { return h.Clock.Now().Sub(t) }

// readiness is implemented by connections that know whether a Read would return at once. They
// need no pump.
type readiness interface{ Ready() bool }
