package agent

import (
	"iter"
	"math"
	"net/http"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/certs"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/metrics"
)

// certificateHead has the fields of an [api.CertificateList] before its items.
type certificateHead struct {
	Metadata api.ListMeta `json:"metadata,omitzero"`
}

// serveCertificates responds with the certificates that servers show to probes. The first one to end comes first.
func (a *Agent) serveCertificates(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("certificates", r.URL.Query(), "namespace", "pod", "container", "kind", "probes")
	if err == nil {
		err = checkProbeFilters(&q)
	}
	most := math.MaxInt
	if err == nil {
		most, err = itemsLimit("probes", q.filters["probes"])
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	found := pager[*certs.Listed]{query: &q}
	for _, c := range a.certs.Certificates(func(p *certs.Probe) bool {
		return q.matches("namespace", p.Pod.Namespace) && q.matches("pod", p.Pod.Name) && q.matches("container", p.Container) && q.matches("kind", p.Kind.String())
	}) {
		if key := (sortKey{c.NotAfter().Format(time.DateTime), c.SHA256()}); !found.passed(&key) {
			found.add(key, c)
		}
	}
	page, meta := found.page()
	now := time.Now()
	writeList(w, certificateHead{meta}, page, func(c *certs.Listed) (any, bool) { return c.API(most, now), true })
}

// measuredCertificates yields the first certificate to end of each probe, for the metrics.
func (a *Agent) measuredCertificates() iter.Seq[metrics.Certificate] {
	return func(yield func(metrics.Certificate) bool) {
		for s := range a.certs.Spans() {
			c := metrics.Certificate{Namespace: s.Pod.Namespace, Pod: s.Pod.Name, Container: s.Container, Kind: s.Kind, NotBefore: s.NotBefore, NotAfter: s.NotAfter}
			if !yield(c) {
				return
			}
		}
	}
}
