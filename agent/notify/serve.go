package notify

import (
	"errors"
	"net/http"
	"strings"

	"github.com/daeace23/prober/agent/reply"
)

// ServeTest sends a test message to the receiver that the path of r names, and responds with its answer.
func (n *Notifier) ServeTest(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("receiver")
	result, err := n.Test(r.Context(), name)
	switch {
	case errors.Is(err, ErrNoReceiver):
		known := "none is configured"
		if names := n.Names(); len(names) > 0 {
			known = "known: " + strings.Join(names, ", ")
		}
		reply.Fail(w, http.StatusNotFound, "unknown receiver %q; %s", name, known)
	case !result.Delivered:
		reply.Fail(w, http.StatusBadGateway, "receiver %q: %s", name, result.Answer)
	default:
		reply.JSON(w, result)
	}
}
