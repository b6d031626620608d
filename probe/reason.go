package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
)

// Reason is a word from a closed list that says why an attempt did not succeed.
// It is fit for a metric label.
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

	// ReasonHostStall and ReasonHostResources are trouble of the agent's own host, which
	// says nothing of the target: it was stopped or starved of processor time while the
	// attempt ran, or it was out of descriptors, memory or ports.
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

// hostErrors are errors of system calls whose cause is on the agent's side.
var hostErrors = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
}

// IsHostResources reports whether err says that the agent's own host was out of
// descriptors, buffers, memory or local ports. A name that could not be looked up for
// such a reason counts as well.
func IsHostResources(err error) bool {
	lookup := lookupText(err)
	return slices.ContainsFunc(hostErrors, func(e error) bool {
		return errors.Is(err, e) || strings.Contains(lookup, e.Error())
	})
}

// IsHostTrouble reports whether err, of an attempt, is the agent's own trouble: its
// reason is [ReasonHostStall] or [ReasonHostResources].
func IsHostTrouble(err error) bool {
	r := ReasonOf(err)
	return r == ReasonHostStall || r == ReasonHostResources
}

// ErrNoSlot is matched by the error of a handler that could not begin the attempt
// because it had no free instance, process or slot. The tick is skipped and counted,
// and is never a Failure of the target.
var ErrNoSlot = errors.New("no free slot")
