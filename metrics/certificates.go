package metrics

import (
	"iter"
	"time"

	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
)

// Certificate is the first certificate to end of those that a probe sees.
type Certificate struct {
	Namespace, Pod, Container string
	Kind                      probe.Kind
	NotBefore, NotAfter       time.Time
}

// RegisterCertificates registers the gauges of certificates. all is called at each scrape, and must not block.
func RegisterCertificates(r prometheus.Registerer, all func() iter.Seq[Certificate]) error {
	return r.Register(certificatesCollector(all))
}

// certificatesCollector collects the gauges of certificates.
type certificatesCollector func() iter.Seq[Certificate]

var _ prometheus.Collector = certificatesCollector(nil)

// Describe implements [prometheus.Collector].
func (certificatesCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- certificateNotBefore.Desc
	ch <- certificateNotAfter.Desc
}

// Collect implements [prometheus.Collector].
func (c certificatesCollector) Collect(ch chan<- prometheus.Metric) {
	first := make(map[[4]string]Certificate) // pods of the same name have the same labels
	for cert := range c() {
		labels := [4]string{valid(cert.Namespace), valid(cert.Pod), valid(cert.Container), cert.Kind.String()}
		if had, ok := first[labels]; !ok || cert.NotAfter.Before(had.NotAfter) {
			first[labels] = cert
		}
	}
	for labels, cert := range first {
		for gauge, at := range map[*family.Described]time.Time{certificateNotBefore: cert.NotBefore, certificateNotAfter: cert.NotAfter} {
			ch <- gauge.With(float64(at.Unix()), labels[:]...)
		}
	}
}
