package depend

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/daeace23/prober/probe"
)

// unanswered reports whether an attempt may have failed because its host has no network: there is no sign of
// a response from the target, or the response was incomplete at the deadline. text describes the failure.
func unanswered(ctx context.Context, req *probe.Request, out *probe.Outcome, err error) (text string, ok bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return probe.TimedOut(req.Spec.Timeout).Output, true // as the worker counts it
	case err != nil:
		return err.Error(), probe.ReasonOf(err) == probe.ReasonHostNetwork
	}
	switch out.Reason {
	case probe.ReasonDNS, probe.ReasonConnectTimeout, probe.ReasonDeadline, probe.ReasonGuest, "":
		return cmp.Or(out.Output, "no answer"), out.Result == probe.Failure
	case probe.ReasonTLS, probe.ReasonProtocol, probe.ReasonBody:
		return out.Output, out.Result == probe.Failure && ctx.Err() != nil
	default:
		return "", false
	}
}

// failed reports whether an attempt counts as a failure. A warning does not, whatever warningAs is. text
// describes the failure.
func failed(req *probe.Request, out *probe.Outcome, err error) (text string, ok bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return probe.TimedOut(req.Spec.Timeout).Output, true // as the worker counts it
	case err != nil:
		counts := req.Spec.ErrorPolicy == probe.CountAsFailure && !probe.IsHostTrouble(err) && !errors.Is(err, probe.ErrNoSlot)
		return err.Error(), counts
	case out.Result == probe.Success || out.Result == probe.Warning:
		return "", false
	default:
		return cmp.Or(out.Output, string(out.Reason), out.Result.String()), true
	}
}

// isLocal reports whether a pod is on this host, so that its probes need no network.
func isLocal(podIP string) bool {
	addr, err := netip.ParseAddr(podIP)
	return podIP == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
