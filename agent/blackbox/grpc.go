package blackbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/daeace23/prober/probe"
)

// lookUp resolves the target of a gRPC module as blackbox_exporter does, and returns metrics of the lookup.
// The built-in handler has no such metrics.
func (f *grpcFields) lookUp(ctx context.Context, host string) (ip net.IP, measured []probe.Metric, err error) {
	start := time.Now()
	all, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	took := time.Since(start).Seconds()
	measured = append(measured, seconds("dns_lookup_time_seconds", took), labelled("grpc_duration_seconds", "phase", "resolve", took))
	if err != nil {
		return nil, measured, err
	}
	if ip = f.choose(all); ip == nil {
		return nil, measured, fmt.Errorf("%s has no address of %s", host, f.PreferredIPProtocol)
	}
	version, bytes := 6.0, []byte(ip.To16())
	if v4 := ip.To4(); v4 != nil {
		version, bytes = 4, v4
	}
	hash := fnv.New32a()
	_, _ = hash.Write(bytes)
	return ip, append(measured, number("ip_protocol", version), number("ip_addr_hash", float64(hash.Sum32()))), nil
}

// choose returns the first address of the preferred IP version, or, if the fallback is allowed, of the other
// one.
func (f *grpcFields) choose(all []net.IP) net.IP {
	for _, ip := range all {
		if (ip.To4() != nil) == (f.PreferredIPProtocol == "ip4") {
			return ip
		}
	}
	if len(all) > 0 && (f.IPProtocolFallback == nil || *f.IPProtocolFallback) {
		return all[0]
	}
	return nil
}

// servingStatuses are the names of the statuses in grpc.health.v1.
var servingStatuses = []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// measureGRPC returns the metrics of an attempt of the built-in handler. The handler does not return the
// certificate, so there is no ssl_earliest_cert_expiry: 0, as in blackbox_exporter before 0.26 without TLS,
// would look like an expired certificate.
func measureGRPC(v *verdict, secure bool, took time.Duration) (all []probe.Metric) {
	output, status := v.outcome.Output, ""
	if v.success() {
		status = "SERVING"
	}
	for _, s := range servingStatuses {
		if strings.Contains(output, `(responded with "`+s+`")`) {
			status = s
		}
		all = append(all, labelled("grpc_healthcheck_response", "serving_status", s, flag(s == status)))
	}
	return append(all, labelled("grpc_duration_seconds", "phase", "check", took.Seconds()),
		number("grpc_ssl", flag(secure)), number("grpc_status_code", float64(codeOf(v, status != ""))))
}

// codeOf returns the status code of the call, taken from the kubelet's text for it.
func codeOf(v *verdict, answered bool) codes.Code {
	output := v.outcome.Output
	switch {
	case answered:
		return codes.OK
	case errors.Is(v.err, context.DeadlineExceeded), v.outcome.Reason == probe.ReasonDeadline && !strings.Contains(output, "failed to connect"):
		return codes.DeadlineExceeded
	case strings.Contains(output, "does not implement the grpc health protocol"):
		return codes.Unimplemented
	}
	_, text, _ := strings.Cut(output, "rpc error: code = ")
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if name, _, _ := strings.Cut(text, " "); name == c.String() {
			return c
		}
	}
	return codes.Unavailable
}

func seconds(name string, value float64) probe.Metric {
	return probe.Metric{Name: name, Unit: "s", Value: value}
}

func number(name string, value float64) probe.Metric { return probe.Metric{Name: name, Value: value} }

func labelled(name, label, labelValue string, value float64) probe.Metric {
	return probe.Metric{Name: name, Value: value, Labels: map[string]string{label: labelValue}}
}
