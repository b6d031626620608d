package certs

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// Listed is a certificate with probes that see it.
type Listed struct {
	known  *known
	probes []api.CertificateProbe
}

// Certificates returns the certificates that the probes see for which match returns true, in no particular order.
func (b *Board) Certificates(match func(*Probe) bool) (all []*Listed) {
	found := make(map[*known]*Listed)
	for _, w := range b.all() {
		if !match(&w.Probe) {
			continue
		}
		for _, s := range w.sightings() {
			l := found[s.known]
			if l == nil {
				l = &Listed{known: s.known}
				found[s.known], all = l, append(all, l)
			}
			l.probes = append(l.probes, s.probe)
		}
	}
	return all
}

// SHA256 returns the fingerprint in hexadecimal.
func (l *Listed) SHA256() string { return l.known.SHA256 }

// NotAfter returns the end of the certificate.
func (l *Listed) NotAfter() time.Time { return l.known.NotAfter }

// soon is the time before the end of a certificate in which it should be renewed. Certificates that live for weeks or
// less are renewed later. The alert ProberCertificateExpires has the same rule.
const soon = 14 * 24 * time.Hour

// API returns the certificate with at most most of its probes. now is the time from which it counts days.
func (l *Listed) API(most int, now time.Time) api.Certificate {
	c := l.known.Certificate
	left := c.NotAfter.Sub(now)
	c.DaysLeft, c.EndsSoon = int(math.Floor(left.Hours()/24)), left < soon && left < c.NotAfter.Sub(c.NotBefore)/3
	slices.SortFunc(l.probes, func(a, b api.CertificateProbe) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	c.SetProbes(l.probes)
	c.Probes = c.Probes[:min(most, len(c.Probes))]
	return c
}

// Span is the time in which the certificate of a probe is valid that ends first.
type Span struct {
	Probe
	NotBefore, NotAfter time.Time
}

// Spans yields a Span for each probe with certificates.
func (b *Board) Spans() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for _, w := range b.all() {
			if s, ok := w.span(); ok && !yield(Span{w.Probe, s.begin, s.end}) {
				return
			}
		}
	}
}
