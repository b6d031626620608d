package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
)

func certificateResource() *resource {
	return &resource{
		name: "certificates", aliases: []string{"certificate", "certs", "cert"}, short: "Show the certificates that servers show to probes, the first to end first", args: "[NAME|POD|SHA256]...",
		example: "  prober get certificates\n  prober get certificates -l team=shop -o wide\n  prober get certificates '*.example.com'",
		columns: []column{
			{head: "DAYS"}, {head: "NAME"}, {head: "ENDS"}, {head: "VERIFICATION"}, {head: "PROBES"}, {head: "ISSUER"},
			{"PLACE", true}, {"SEEN", true}, {"SEEN BY", true}, {"NAMES", true}, {"SUBJECT", true}, {"BEGINS", true}, {"SERIAL", true}, {"SHA256", true}, {"WHY", true},
		},
		labelled: true, list: listCertificates,
	}
}

func listCertificates(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	all, err := c.Certificates(ctx, client.CertificateFilter{Namespace: s.Namespace})
	var items []item
	for i := range all {
		only, ok := all[i].Only(func(p *api.CertificateProbe) bool { return s.hasPod(p.Namespace, p.Pod) })
		if it := certificateItem(&only); ok && s.selectsName(append(it.also, it.name)...) {
			items = append(items, it)
		}
	}
	return items, err
}

// certificateItem returns the row of a certificate that at least one probe sees.
func certificateItem(c *api.Certificate) item {
	also := append(slices.Clone(c.Names), c.Subject)
	places, by, seen := make(map[string]bool), []string(nil), time.Time{}
	for i := range c.Probes {
		p := &c.Probes[i]
		also = append(also, p.Pod, p.Namespace+"/"+p.Pod)
		places[fmt.Sprintf("%d of %d", p.Position, p.Sent)] = true
		by = append(by, strings.Join([]string{p.Namespace, p.Pod, p.Container, p.Kind}, "/"))
		if p.Seen.After(seen) {
			seen = p.Seen
		}
	}
	names := strings.Join(c.Names, " ")
	if c.MoreNames > 0 {
		names += fmt.Sprintf(" and %d more", c.MoreNames)
	}
	name := c.Subject
	if len(c.Names) > 0 {
		name = c.Names[0]
	}
	day := func(t time.Time) string { return t.Local().Format(time.DateOnly) }
	return item{
		name: c.SHA256, also: also, object: c,
		cells: []string{
			fmt.Sprint(c.DaysLeft), cmp.Or(name, "serial number "+c.Serial), day(c.NotAfter), c.Verification, fmt.Sprint(c.ProbeCount), c.Issuer,
			strings.Join(slices.Sorted(maps.Keys(places)), ", "), ago(seen), listed(by), names, c.Subject, day(c.NotBefore), c.Serial, c.SHA256, c.Why,
		},
	}
}

// listed returns the first of some names, and the number of the others.
func listed(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], " "), len(names)-few)
}
