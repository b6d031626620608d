// Options is a guest that sets every option of every host function, and reads what their results repeat. The test
// in test/e2e has the same guest for each SDK.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(options)) }

func options(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	r.Progressf("working")
	tls := sdk.TLSOptions{
		ServerName: "d b", InsecureSkipVerify: true, CA: "PEM\n", Credentials: "own", MinVersion: "TLS12", MaxVersion: "TLS13",
	}
	resp, err := sdk.HTTP(ctx, sdk.HTTPRequest{
		Method: "PUT", URL: "https://db.internal/x", Header: map[string]string{"X-Asked": `a "b"`}, Body: []byte{0, 0xff, 'a'},
		Redirects: 2, TLS: tls, Timeout: 250 * time.Millisecond, HTTP2: true, Decompress: "gzip", IPFamily: "4,6",
		SourceAddress: "10.0.0.1", Proxy: "http://proxy:3128", ProxyHeader: map[string]string{"X-Team": "shop"},
	})
	if err != nil {
		return probe.Outcome{}, err
	}
	defer resp.Body.Close()
	tls.ALPN = []string{"h2", "http/1.1"}
	conn, err := sdk.Dial(ctx, "tcp", "db.internal:5432")
	if err == nil {
		_, err = sdk.StartTLS(ctx, conn, tls)
	}
	if err == nil {
		tls.CA = ""
		_, err = (&sdk.Dialer{IPFamily: "6", SourceAddress: "fd00::1", TLS: tls}).DialContext(ctx, "tls", "db.internal:5432")
	}
	if err == nil {
		_, err = sdk.LookupDNS(ctx, sdk.DNSQuery{Name: "db.internal", Type: "SRV", Server: "target"})
	}
	if err == nil {
		_, err = sdk.Echo(ctx, sdk.EchoRequest{Host: "db.internal", IPFamily: "6,4", SourceAddress: "10.0.0.1", Payload: 9, HopLimit: 7, DontFragment: true})
	}
	if err == nil {
		err = r.KV().Set("key", []byte{0, 0xff})
	}
	if err != nil {
		return probe.Outcome{}, err
	}
	kept, err := r.KV().Get("key")
	at := time.Unix(1136214245, 0).UTC()
	parsed, parseErr := time.Parse(time.RFC3339, "2006-01-02T17:04:05.5+02:00")
	out := sdk.Failuref("%s %s %s %s %t %t", strings.Join(resp.Values("set-cookie"), "|"), strings.Join(resp.Values("x-one"), "|"),
		at.Format("20060102T150405Z"), at.Format(time.RFC3339), parsed.Unix() == at.Unix(), string(kept) == "\x00\xff")
	out.Metrics = []probe.Metric{{Name: "seconds", Unit: "s", Value: 0.5, Labels: map[string]string{"role": "main"}}}
	out.Details, out.Reason = `{"a":1}`, "body"
	if parseErr != nil || fmt.Sprint(r.Features) != "[net kv]" {
		return out, fmt.Errorf("%w %v", parseErr, r.Features)
	}
	return out, err
}
