package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/config"
)

// dnsTimeout limits one query for SRV records.
const dnsTimeout = config.DefaultRefreshTimeout

// records queries SRV records.
type records struct {
	spec     config.DNSTargets
	resolver net.Resolver
}

func newRecords(spec config.DNSTargets) *records {
	r := &records{spec: spec}
	if spec.Server != "" {
		r.resolver.PreferGo = true
		r.resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, spec.Server)
		}
	}
	return r
}

// get queries the records. A name without records is an error, so that a name server that has lost its zone
// does not end all probes.
func (r *records) get(ctx context.Context, _ bool) ([]found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dnsTimeout, fmt.Errorf("no answer within %s", dnsTimeout))
	defer cancel()
	name := strings.TrimSuffix(r.spec.SRV, ".") + "."
	_, all, err := r.resolver.LookupSRV(ctx, "", "", name)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && len(all) == 0: // with records, the error means that invalid names were left out
		if e, ok := errors.AsType[*net.DNSError](err); ok {
			err = errors.New(e.Err)
		}
		return nil, err
	case len(all) > maxTargets:
		return nil, errTooMany
	}
	var addresses []string
	for _, srv := range all {
		addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(srv.Target, "."), strconv.Itoa(int(srv.Port))))
	}
	slices.Sort(addresses) // the order of the answers is random
	labels := map[string]string{"__meta_dns_name": r.spec.SRV}
	var list []found
	for _, a := range slices.Compact(addresses) {
		list = append(list, found{address: a, labels: labels})
	}
	return list, nil
}
