package probe

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Reason is the reason why an attempt did not succeed, from a fixed list. It can be the value of a metric
// label.
type Reason string

// The fixed list of reasons.
const (
	ReasonDNS            Reason = "dns"
	ReasonConnectRefused Reason = "connect_refused"
	ReasonConnectTimeout Reason = "connect_timeout"
	ReasonTLS            Reason = "tls"
	ReasonHTTPStatus     Reason = "http_status"
	ReasonBody           Reason = "body"
	ReasonDeadline       Reason = "deadline"
	ReasonExecExit       Reason = "exec_exit"
	ReasonTrap           Reason = "trap"
	ReasonMemory         Reason = "memory"
	ReasonInstantiate    Reason = "instantiate"
	ReasonDenied         Reason = "denied"
	ReasonProtocol       Reason = "protocol"
	ReasonGuest          Reason = "guest"
	ReasonInternal       Reason = "internal"
	// ReasonUndecided is the reason of a check without a state: a push without a report yet, or an endpoint
	// whose state depends on unknown checks.
	ReasonUndecided Reason = "undecided"

	// ReasonHostStall, ReasonHostResources and ReasonHostNetwork are faults of the agent's own host, not of
	// the target. The agent was suspended or starved of processor time during the attempt; the host was out
	// of descriptors, memory or ports; or it had no route or no resolver.
	ReasonHostStall     Reason = "host_stall"
	ReasonHostResources Reason = "host_resources"
	ReasonHostNetwork   Reason = "host_network"

	// ReasonDependency is the reason of a failure while something on which the target depends fails. Such an
	// attempt is an error that no [ErrorPolicy] counts.
	ReasonDependency Reason = "dependency"
)

// Error is the error of an attempt with its reason.
type Error struct {
	Reason Reason
	Err    error
}

// Error returns the text of the wrapped error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of the first [Error] in err's chain, [ReasonDeadline] for a deadline, and
// [ReasonInternal] for any other error.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ReasonDeadline
	}
	return ReasonInternal
}

// resourceErrors are errors of system calls on a host that is out of descriptors, buffers, memory or local
// ports. networkErrors are errors on a host without a network, or without a route to the target: the kernel
// refuses to send. A target that does not answer on the host's own network has the error
// [syscall.EHOSTUNREACH] instead. resolverErrors are errors of look-ups whose resolver cannot be reached.
var (
	resourceErrors = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}
	networkErrors  = []error{syscall.ENETUNREACH, syscall.ENETDOWN}
	resolverErrors = []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH}
)

// HostReason returns [ReasonHostResources] or [ReasonHostNetwork] if the agent's own host caused err, the
// error of a system call or of a name look-up; "" otherwise. An [Error] has its own reason. A network error
// may also be caused by a router; handlers that dial find that out, and return an Error.
func HostReason(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Reason.OfHost() {
			return e.Reason
		}
		return ""
	}
	lookup := lookupText(err)
	caused := func(e error) bool { return errors.Is(err, e) || strings.Contains(lookup, e.Error()) }
	inLookup := func(e error) bool { return strings.Contains(lookup, e.Error()) }
	_, called := errors.AsType[*os.SyscallError](err) // otherwise the error comes from a received packet
	switch {
	case slices.ContainsFunc(resourceErrors, caused):
		return ReasonHostResources
	case called && slices.ContainsFunc(networkErrors, caused), slices.ContainsFunc(networkErrors, inLookup),
		slices.ContainsFunc(resolverErrors, inLookup):
		return ReasonHostNetwork
	default:
		return ""
	}
}

// OfHost reports whether r is a fault of the agent's own host.
func (r Reason) OfHost() bool {
	return r == ReasonHostStall || r == ReasonHostResources || r == ReasonHostNetwork
}

// IsHostTrouble reports whether the agent's own host caused err, the error of an attempt; see
// [Reason.OfHost].
func IsHostTrouble(err error) bool { return ReasonOf(err).OfHost() }

// ErrNoSlot matches the error of a handler that could not begin the attempt, because it had no free
// instance, process or slot. The tick is skipped and counted, and is never a Failure of the target. See
// [SuspendTimeout] for handlers that wait for a slot.
var ErrNoSlot = errors.New("no free slot")
