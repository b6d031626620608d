// Grpc-health is a plugin that asks a server for its health over gRPC, optionally with metadata
// and TLS: grpc.health.v1.Health/Check.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	if !c.Bool("tls", false) {
		for _, name := range []string{"serverName", "ca"} {
			if c.Has(name) {
				return fmt.Errorf("config.%s: is of no use without tls", name)
			}
		}
	}
	if ca := c.String("ca", ""); ca != "" && !strings.Contains(ca, "-----BEGIN CERTIFICATE-----") {
		return errors.New("config.ca: no certificate in PEM")
	}
	if c.Duration("warnAfter", time.Second) <= 0 {
		return errors.New("config.warnAfter: must be above 0")
	}
	_, err := metadata(c)
	return err
}

// metadata returns the metadata of the call.
func metadata(c *sdk.Config) ([]field, error) {
	if !c.Has("metadata") {
		return nil, nil
	}
	fields, err := fields(c.JSON("metadata"))
	if err != nil {
		return nil, fmt.Errorf("config.metadata: %w", err)
	}
	for _, f := range fields {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("config.metadata: %w", err)
		}
	}
	return fields, nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	more, err := metadata(r.Config)
	if err != nil {
		return probe.Outcome{}, err
	}
	conn, err := connect(ctx, r)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	service := r.Config.String("service", "")
	start := time.Now()
	rep, err := call(conn, &request{
		scheme:    scheme(r.Config),
		authority: cmp.Or(r.Config.String("authority", ""), authority(r)),
		path:      "/grpc.health.v1.Health/Check",
		timeout:   timeLeft(ctx),
		metadata:  more,
		message:   encodeRequest(service),
	})
	took := time.Since(start)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out := judge(rep, service)
	if after := r.Config.Duration("warnAfter", 0); out.Result == probe.Success && after > 0 && took > after {
		out = sdk.Warningf("%s after %v, more than %v", out.Output, took.Round(time.Millisecond), after)
	}
	out.Metrics = []probe.Metric{{Name: "check_seconds", Value: took.Seconds(), Unit: "s"}}
	return out, nil
}

func connect(ctx context.Context, r *sdk.Request) (net.Conn, error) {
	conn, err := r.Dial(ctx)
	if err != nil || !r.Config.Bool("tls", false) {
		return conn, err
	}
	secured, err := sdk.StartTLS(ctx, conn, sdk.TLSOptions{
		ServerName:         cmp.Or(r.Config.String("serverName", ""), r.Target.Host),
		ALPN:               []string{"h2"},
		InsecureSkipVerify: r.Config.String("verify", "full") == "none",
		CA:                 r.Config.String("ca", ""),
	})
	if err != nil {
		conn.Close()
	}
	return secured, err
}

func scheme(c *sdk.Config) string {
	if c.Bool("tls", false) {
		return "https"
	}
	return "http"
}

// authority returns the target in the form of gRPC clients.
func authority(r *sdk.Request) string {
	if r.Target.Unix != "" {
		return "localhost"
	}
	return r.Addr()
}

// timeLeft returns the time until the deadline, or 0.
func timeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, time.Until(end))
	}
	return 0
}

// The values of HealthCheckResponse.ServingStatus.
var statuses = []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// judge returns the result for a reply.
func judge(rep *reply, service string) probe.Outcome {
	who := "the server"
	if service != "" {
		who = fmt.Sprintf("service %q", service)
	}
	switch rep.code {
	case codeOK:
	case codeNotFound:
		return sdk.Failuref("%s is not known to the health service%s", who, rep.said())
	case codeUnimplemented:
		return sdk.Failuref("the server does not implement grpc.health.v1.Health%s", rep.said())
	default:
		return sdk.Failuref("the call fails with %s%s", codeName(rep.code), rep.said())
	}
	status, err := decodeResponse(rep.message)
	switch {
	case err != nil:
		return sdk.Failuref("%v", err)
	case status >= uint64(len(statuses)):
		return sdk.Failuref("%s has the status %d, which is not known", who, status)
	case status == 0:
		return sdk.Unknownf("%s is UNKNOWN", who)
	case status == 1:
		return sdk.Successf("%s is SERVING", who)
	default:
		return sdk.Failuref("%s is %s", who, statuses[status])
	}
}
