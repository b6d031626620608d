// Package sdk is the SDK for plugins in Go.
//
// A plugin is a value with one method. It must be registered in init, because the main function of a guest
// never runs:
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
// `prober plugin new` writes such a plugin with its manifest and tests. `prober plugin build` compiles it
// to a guest, with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared. For tests, the same source
// compiles to a native program: see [Native] and sdk/sdktest. docs/plugins/tutorial.md is a tutorial.
//
// A guest has no network of its own: net.Dial reaches a fake network inside the guest. [Dial] reaches the
// real one. Database drivers, clients of queues and caches, and net/http (with sdk/sdkhttp) can use it as
// their dialer. [HTTP] and [LookupDNS] use the host's implementation of the protocol, and [Request.KV]
// keeps values from attempt to attempt. A guest imports only the host functions that it calls, and only
// needs grants for these.
//
// A native program uses the real network; [WithHost] replaces it in tests.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// Plugin carries out probes. The outcome is the verdict about the target. An error means that there is no
// verdict, and the host retries the attempt. ctx ends at the timeout of the probe, which the host reports
// as a Failure.
type Plugin interface {
	Probe(ctx context.Context, r *Request) (probe.Outcome, error)
}

// ConfigValidator is a Plugin with checks of the config that the schema in its manifest cannot express. The
// error is shown to the user who configured the probe.
type ConfigValidator interface {
	ValidateConfig(c *Config) error
}

// Func is a function that implements [Plugin].
type Func func(ctx context.Context, r *Request) (probe.Outcome, error)

// Probe calls f.
func (f Func) Probe(ctx context.Context, r *Request) (probe.Outcome, error) { return f(ctx, r) }

// Register makes p the plugin of this guest. Call it once, from init. It has no effect in a native program:
// see [Native].
func Register(p Plugin) { register(p) }

// Request describes one attempt. Fields that the host does not know are zero. Its labels, ports and features
// must not be modified.
type Request struct {
	Kind             probe.Kind
	Attempt          int           // from 1 to 3 within one tick
	Period           time.Duration // time between ticks
	Timeout          time.Duration // timeout of each attempt; the context ends with it
	FailureThreshold int           // number of consecutive Failures that decide the result
	LastResult       probe.Result  // result of the previous tick
	Target           probe.Target
	Pod              probe.Pod
	Container        probe.Container
	ContainerID      string  // changes when the container restarts
	Config           *Config // never nil

	Self        PluginInfo
	HostVersion string // version of prober
	// Features has the capabilities of the plugin: those that are always granted, or requested and granted.
	// Ask it before using a capability that is optional in the manifest. A native program has the capabilities of [Host].
	Features []string

	kv    KV
	trace probe.Tracer // in a native program
	told  string       // the last Progressf, in a native program
}

// PluginInfo describes a plugin: its Name and Version in the manifest, and the Digest of its module.
type PluginInfo = abi.Plugin

var errNoTarget = errors.New("dial: the probe has no target")

// Addr returns the address of the target for Dial: "host:port", or the path of a socket.
func (r *Request) Addr() string {
	if r.Target.Unix != "" {
		return r.Target.Unix
	}
	return net.JoinHostPort(r.Target.Host, strconv.Itoa(r.Target.Port))
}

// Dial connects to the target, over TCP or to its unix socket.
func (r *Request) Dial(ctx context.Context) (net.Conn, error) {
	if r.Target.Host == "" && r.Target.Unix == "" {
		return nil, errNoTarget
	}
	return dialTarget(ctx, r)
}

// Level is the severity of a log line.
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

// Successf returns the outcome for a healthy target.
func Successf(format string, args ...any) probe.Outcome {
	return outcome(probe.Success, format, args)
}

// Warningf returns the outcome for a healthy target with a warning.
func Warningf(format string, args ...any) probe.Outcome {
	return outcome(probe.Warning, format, args)
}

// Failuref returns the outcome for an unhealthy target.
func Failuref(format string, args ...any) probe.Outcome {
	return outcome(probe.Failure, format, args)
}

// Unknownf returns the outcome for a target whose health is unknown. It counts as a Failure and is not
// retried.
func Unknownf(format string, args ...any) probe.Outcome {
	return outcome(probe.Unknown, format, args)
}

func outcome(result probe.Result, format string, args []any) probe.Outcome {
	return probe.Outcome{Result: result, Output: probe.Cut(sprintf(format, args))}
}

// sprintf is fmt.Sprintf. Most messages have no verbs, or only strings and integers; without fmt these take
// a guest half of the time.
func sprintf(format string, args []any) string {
	if len(args) == 0 && strings.IndexByte(format, '%') < 0 {
		return format
	}
	var buf [128]byte
	b, rest := buf[:0], format
	for _, arg := range args {
		i := strings.IndexByte(rest, '%')
		if i < 0 || i+1 == len(rest) {
			return fmt.Sprintf(format, args...)
		}
		b = append(b, rest[:i]...)
		switch verb := rest[i+1]; arg := arg.(type) {
		case string:
			if verb != 's' && verb != 'v' {
				return fmt.Sprintf(format, args...)
			}
			b = append(b, arg...)
		case int:
			if verb != 'd' && verb != 'v' {
				return fmt.Sprintf(format, args...)
			}
			b = strconv.AppendInt(b, int64(arg), 10)
		default:
			return fmt.Sprintf(format, args...)
		}
		rest = rest[i+2:]
	}
	if strings.IndexByte(rest, '%') >= 0 {
		return fmt.Sprintf(format, args...)
	}
	return string(append(b, rest...))
}
