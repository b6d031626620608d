package probe

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Reason is why an attempt did not succeed, from a closed list. It can be the value of
// a metric label.
type Reason string

// The closed list of reasons.
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

	// ReasonHostStall, ReasonHostResources and ReasonHostNetwork are faults of the agent's own host,
	// not of the target. The agent was stopped or starved of processor time during the attempt, the
	// host was out of descriptors, memory or ports, or it had no route or no resolver.
	ReasonHostStall     Reason = "host_stall"
	ReasonHostResources Reason = "host_resources"
	ReasonHostNetwork   Reason = "host_network"
)

// Error is an attempt's error together with its reason.
type Error struct {
	Reason Reason
	Err    error
}

// Error returns the text of the error inside.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of the first [Error] in err's chain,
// [ReasonDeadline] for a deadline, and [ReasonInternal] for anything else.
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
// ports. networkErrors are those on a host without a route to the target, or without a network: the kernel
// refuses to send. That of a target which does not answer on its own network is [syscall.EHOSTUNREACH].
// resolverErrors end a look-up whose resolver cannot be asked.
var (
	resourceErrors = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}
	networkErrors  = []error{syscall.ENETUNREACH, syscall.ENETDOWN}
	resolverErrors = []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH}
)

// HostReason returns [ReasonHostResources] or [ReasonHostNetwork] if the agent's own host caused err, the
// error of a system call or of the look-up of a name; "" otherwise. An [Error] has its own reason. A router on
// the way may have caused a network error too: handlers that dial find that out, and give it an Error.
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
	_, called := errors.AsType[*os.SyscallError](err) // else it is the text of a packet
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

// IsHostTrouble reports whether the agent's own host caused err, the error of an attempt: see
// [Reason.OfHost].
func IsHostTrouble(err error) bool { return ReasonOf(err).OfHost() }

// ErrNoSlot matches the error of a handler that could not begin the attempt because it
// had no free instance, process or slot. The tick is skipped and counted, and is never a
// Failure of the target. See [SuspendTimeout] for handlers that wait for a slot.
var ErrNoSlot = errors.New("no free slot")
