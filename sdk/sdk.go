// Package sdk is what the author of a Go plugin imports.
//
// A plugin is a value with one method, registered in init, because the main
// function of a guest never runs:
//
//	func init() { sdk.Register(check{}) }
//
//	func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
//		conn, err := r.Dial(ctx)
//		if err != nil {
//			return sdk.Failuref("%v", err), nil
//		}
//		defer conn.Close()
//		return sdk.Successf("connected"), nil
//	}
//
// `prober plugin new` writes such a plugin with its manifest and its tests, and `prober
// plugin build` makes a guest of it, by GOOS=wasip1 GOARCH=wasm go build
// -buildmode=c-shared. The same source builds for the machine at hand, where its tests
// run: see [Native] and sdk/sdktest. docs/plugin-authors.md is a tutorial.
//
// A guest has no network of its own: net.Dial there reaches a fake inside the
// guest. [Dial] reaches the wire, and whatever takes a dialer works on top of it:
// database drivers, clients of queues and caches, net/http (import sdk/sdkhttp for it).
// [HTTP] and [LookupDNS] leave the protocol to the host, and [Request.KV] is what a
// probe remembers. A guest that does not call one of them does not import it, so nobody
// has to grant it.
//
// In a native program all of them are the real thing, and [WithHost] plays them in tests.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// Plugin carries out probes. The outcome is the verdict about the target; the
// error means that no verdict could be reached, and is tried again. ctx ends with
// the probe's timeout, which the host turns into a Failure by itself.
type Plugin interface {
	Probe(ctx context.Context, r *Request) (probe.Outcome, error)
}

// ConfigValidator is a Plugin that knows more of its config than the schema in its
// manifest can say. The error is shown to whoever configured the probe.
type ConfigValidator interface {
	ValidateConfig(c *Config) error
}

// Func is a function that is a [Plugin].
type Func func(ctx context.Context, r *Request) (probe.Outcome, error)

// Probe calls f.
func (f Func) Probe(ctx context.Context, r *Request) (probe.Outcome, error) { return f(ctx, r) }

// Register makes p the plugin of this program. It is called once, from init. In a
// native program it does nothing: see [Native].
func Register(p Plugin) { register(p) }

// Request is one attempt's question. What the host does not know is zero.
type Request struct {
	Kind             probe.Kind
	Attempt          int           // 1 to 3, within one tick
	Period           time.Duration // from tick to tick
	Timeout          time.Duration // of each attempt; the context ends with it
	FailureThreshold int           // Failures running that decide
	LastResult       probe.Result  // of the tick before
	Target           probe.Target
	Pod              probe.Pod
	Container        probe.Container
	ContainerID      string  // another one after a restart
	Config           *Config // never nil

	kv    KV
	trace probe.Tracer // of a native run
}

var errNoTarget = errors.New("dial: the probe has no target")

// Addr returns the target as Dial takes it: "host:port", or a socket's path.
func (r *Request) Addr() string {
	if r.Target.Unix != "" {
		return r.Target.Unix
	}
	return net.JoinHostPort(r.Target.Host, strconv.Itoa(r.Target.Port))
}

// Dial connects to the probe's target: over tcp, or to its unix socket.
func (r *Request) Dial(ctx context.Context) (net.Conn, error) {
	if r.Target == (probe.Target{}) {
		return nil, errNoTarget
	}
	if r.Target.Unix != "" {
		return Dial(ctx, "unix", r.Target.Unix)
	}
	return Dial(ctx, "tcp", r.Addr())
}

// Level is how much a log line matters.
type Level int32

// The levels.
const (
	Debug = Level(abi.LevelDebug)
	Info  = Level(abi.LevelInfo)
	Warn  = Level(abi.LevelWarn)
	Error = Level(abi.LevelError)
)

// String returns "debug", "info", "warn" or "error".
func (l Level) String() string {
	switch l {
	case Debug:
		return "debug"
	case Info:
		return "info"
	case Warn:
		return "warn"
	default:
		return "error"
	}
}

// Successf is the outcome of a target that is well.
func Successf(format string, args ...any) probe.Outcome {
	return outcome(probe.Success, format, args)
}

// Warningf is the outcome of a target that is well but has something to tell.
func Warningf(format string, args ...any) probe.Outcome {
	return outcome(probe.Warning, format, args)
}

// Failuref is the outcome of a target that is not well.
func Failuref(format string, args ...any) probe.Outcome {
	return outcome(probe.Failure, format, args)
}

// Unknownf is the outcome of a target of which nothing can be said. It counts as a
// Failure, and is not tried again.
func Unknownf(format string, args ...any) probe.Outcome {
	return outcome(probe.Unknown, format, args)
}

func outcome(result probe.Result, format string, args []any) probe.Outcome {
	return probe.Outcome{Result: result, Output: probe.Cut(fmt.Sprintf(format, args...))}
}
