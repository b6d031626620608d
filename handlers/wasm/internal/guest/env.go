// Package guest carries out the calls of a guest: it gives the guest its host functions, ends
// it at its deadline, and reads its answer.
//
// Read call.go first, one call; then watchdog.go, how it ends. core.go has the functions of
// prober_v1 and how all of them are called; net.go, tls.go, http.go, dns.go and kv.go have those
// of a capability each; wasi.go and command.go what a guest sees of the system.
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
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Clock is the time that guests see, wait by and are ended by. A test of a plugin has
// one of its own, on which nothing takes time but what waits.
type Clock interface {
	// Now returns the time of the clock. It is called with locks held and must not block.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed; a negative d
	// never passes. It reports whether to look again before d is over. wake may be nil.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// WithTimeout is context.WithTimeout by this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// SystemClock is the clock of the system.
type SystemClock struct{}

// Host is what the guests of all plugins share. Its fields are read-only; those that are
// also in wasm.Config are described there.
type Host struct {
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	Handshake   func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)
	RoundTrip   func(req *http.Request, addr string) (*http.Response, error)
	DNSServers  []string
	Clock       Clock
	Rand        io.Reader
	Logger      *slog.Logger
	Interpreter bool
	Strict      bool
	Compat      probe.Compat
	Version     string

	Network egress.Network
	Slots   *sched.Slots // of guests that compute
	Budget  *memory.Budget
	Born    time.Time // by the clock; guests count from here

	runs        runs
	nameservers nameservers // of the system
}

// Plugin is what the guests of one plugin share. Its fields are read-only, but for the
// counters.
type Plugin struct {
	Host        *Host
	Manifest    *plugin.Manifest
	Digest      string
	Limits      plugin.Limits // in effect
	Permissions *egress.Permissions
	Command     bool // it is run as a program

	Denied atomic.Uint64 // dials that the grants did not cover
	Hits   attempt.Hits
}

var _ Clock = SystemClock{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Wait implements [Clock].
func (SystemClock) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	return Wait(ctx, wake, d)
}

// WithTimeout implements [Clock].
func (SystemClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// since is the time that has passed since t.
func (h *Host) since(t time.Time) time.Duration { return h.Clock.Now().Sub(t) }

// readiness is what a connection may tell of itself: whether a Read would return at
// once. One that does is read by the guest's own goroutine, and needs no pump.
type readiness interface{ Ready() bool }
