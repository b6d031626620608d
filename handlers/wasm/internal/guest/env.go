// Package guest carries out the calls of a guest: it provides the host functions, ends the guest
// at its deadline, and reads its result.
//
// Read call.go first, one call; then watchdog.go, how it ends. core.go has the functions of
// prober_v1 and calls all host functions. net.go, tls.go, http.go, dns.go, kv.go, icmp.go and files.go have
// the functions of one capability each. wasi.go and command.go have the guest's streams and environment.
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
	"github.com/daeace23/prober/handlers/wasm/internal/files"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Clock gives guests the time, and times their waits and deadlines.
type Clock interface {
	// Now returns the time of the clock. It is called with locks held and must not block.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed. A negative d never passes.
	// wake may be nil. Wait reports whether wake may have been signalled.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// WithTimeout is context.WithTimeout with this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// SystemClock is the clock of the system.
type SystemClock struct{}

// Host has the configuration and the resources that all plugins share. Its fields are read-only.
// wasm.Config describes the fields that it has too.
type Host struct {
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	Handshake   func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) // nil means crypto/tls
	RoundTrip   func(req *http.Request, addr string) (*http.Response, error)
	Credentials func(plugin, name string) (*tls.Config, error)
	DNSServers  []string
	Echo        func(ctx context.Context, r echo.Request) (echo.Reply, error)
	Files       func(ctx context.Context, r files.Request) (files.Reply, error)
	Clock       Clock
	Rand        io.Reader
	Logger      *slog.Logger
	Interpreter bool
	Strict      bool
	Compat      probe.Compat
	Version     string

	// OnCall gets the name and the duration of each call of a function of the host. Nil means none.
	OnCall func(name string, waited time.Duration)

	Network egress.Network
	// Namespaces means that guests dial in the network namespace of the attempt's context.
	Namespaces bool
	Slots      *sched.Slots // held by guests that compute
	Budget     *memory.Budget
	Born       time.Time // zero of the guests' monotonic clock

	runs        runs
	nameservers nameservers // the system's
}

// Plugin has what all guests of one plugin share. Its fields are read-only, except the counters.
type Plugin struct {
	Host        *Host
	Manifest    *plugin.Manifest
	Digest      string
	Limits      plugin.Limits // in effect
	Features    []string      // features in the request document: the plugin's capabilities, and FeatureOutput
	Permissions *egress.Permissions
	Command     bool // the module is a command

	Denied atomic.Uint64 // dials that the grants did not cover
	Hits   attempt.Hits
	Fuel   atomic.Uint64 // units used by all metered guests
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

// readiness is implemented by connections that can report whether a Read would return at once. They
// need no pump.
type readiness interface{ Ready() bool }
