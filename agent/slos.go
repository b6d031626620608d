package agent

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/agent/slo"
	"github.com/daeace23/prober/probe"
)

// openSLOs creates the tracker of SLOs, with the history and the file of the state directory.
func (a *Agent) openSLOs() {
	c := slo.Config{Log: a.log}
	if a.history != nil {
		c.File, c.Past = filepath.Join(a.cfg.StateDir, "slos.json"), a.history.Spans
	}
	a.slos = slo.New(c)
}

// serveSLOs responds with the SLOs, or with the ones of one probe.
func (a *Agent) serveSLOs(w http.ResponseWriter, r *http.Request) {
	key, err := sloProbe(r)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	reply.JSON(w, api.SLOList{Items: a.slos.Statuses(key)})
}

// sloProbe returns the probe that a request selects; nil if it selects none.
func sloProbe(r *http.Request) (*history.Key, error) {
	names := []string{"container", "kind", "namespace", "pod"}
	values := r.URL.Query()
	for name := range values {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown parameter %q; known: %s", name, strings.Join(names, ", "))
		}
	}
	if len(values) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(names, func(name string) bool { return values.Get(name) == "" }) {
		return nil, errors.New("the SLOs of one probe need namespace, pod, container and kind")
	}
	kind, err := probe.ParseKind(values.Get("kind"))
	return &history.Key{Namespace: values.Get("namespace"), Pod: values.Get("pod"), Container: values.Get("container"), Kind: kind}, err
}
