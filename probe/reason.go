package probe

import (
	"context"
	"errors"
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

	// ReasonHostStall and ReasonHostResources are faults of the agent's own host, not of
	// the target. The agent was stopped or starved of processor time during the attempt,
	// or the host was out of descriptors, memory or ports.
	ReasonHostStall     Reason = "host_stall"
	ReasonHostResources Reason = "host_resources"
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

// hostErrors are errors of system calls that the agent's own host causes.
var hostErrors = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
}

// IsHostResources reports whether the agent's own host was out of descriptors, buffers,
// memory or local ports. It includes look-ups of names that failed for such a reason.
func IsHostResources(err error) bool {
	lookup := lookupText(err)
	return slices.ContainsFunc(hostErrors, func(e error) bool {
		return errors.Is(err, e) || strings.Contains(lookup, e.Error())
	})
}

// IsHostTrouble reports whether the agent's own host caused err, the error of an attempt:
// its reason is [ReasonHostStall] or [ReasonHostResources].
func IsHostTrouble(err error) bool {
	r := ReasonOf(err)
	return r == ReasonHostStall || r == ReasonHostResources
}

// ErrNoSlot matches the error of a handler that could not begin the attempt because it
// had no free instance, process or slot. The tick is skipped and counted, and is never a
// Failure of the target. See [SuspendTimeout] for handlers that wait for a slot.
var ErrNoSlot = errors.New("no free slot")
