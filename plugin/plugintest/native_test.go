package plugintest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// native behaves like the guest in testdata/guest.
func native(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	switch do := r.Config.String("do", "talk"); do {
	case "talk":
		return say(ctx, r, r.Config.String("say", "hello\n"))
	case "talks":
		all := sdk.Successf("")
		for _, text := range r.Config.Strings("says") {
			out, err := say(ctx, r, text)
			if err != nil || out.Result != probe.Success {
				return out, err
			}
			all.Output += out.Output
		}
		return all, nil
	case "http":
		return askNatively(ctx, r.Config)
	case "echo":
		text := ""
		for range r.Config.Int("times", 1) {
			reply, err := sdk.Echo(ctx, sdk.EchoRequest{Host: r.Config.String("addr", ""), HopLimit: 9})
			if err != nil {
				return sdk.Failuref("%s%v", text, err), nil
			}
			text += fmt.Sprintf("%s to %s, hop limit %d, %v; ", reply.Remote, reply.Local, reply.HopLimit, reply.RTT)
		}
		return sdk.Successf("%s", text), nil
	case "dns":
		var q sdk.DNSQuery
		if err := json.Unmarshal([]byte(r.Config.String("request", "")), &q); err != nil {
			return probe.Outcome{}, err
		}
		var text strings.Builder
		for range r.Config.Int("times", 1) {
			answer, err := sdk.LookupDNS(ctx, q)
			if err != nil {
				return sdk.Failuref("%v", err), nil
			}
			doc, err := json.Marshal(answer)
			if err != nil {
				return probe.Outcome{}, err
			}
			text.WriteString(string(doc) + "\n")
		}
		return sdk.Successf("%s", text.String()), nil
	case "count":
		value, err := r.KV().Get("count")
		if err != nil {
			return probe.Outcome{}, err
		}
		n, _ := strconv.Atoi(string(value))
		return sdk.Successf("%d, 0", n+1), r.KV().Set("count", []byte(strconv.Itoa(n+1)))
	case "sleep":
		time.Sleep(time.Hour)
		return sdk.Successf("slept"), nil
	case "error":
		return probe.Outcome{}, errors.New("not today")
	default:
		return sdk.Successf("%s", do), nil
	}
}

func say(ctx context.Context, r *sdk.Request, text string) (probe.Outcome, error) {
	start := time.Now()
	network := r.Config.String("network", "tcp")
	if r.Target.Unix != "" {
		network = "unix"
	}
	conn, err := sdk.Dial(ctx, network, r.Addr())
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	out := sdk.Successf("")
	out.Metrics = []probe.Metric{{Name: "connect_seconds", Value: time.Since(start).Seconds(), Unit: "s"}}
	if _, err := io.WriteString(conn, text); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	read := io.ReadAll
	if network == "udp" {
		read = func(r io.Reader) ([]byte, error) {
			buf := make([]byte, 100)
			n, err := r.Read(buf)
			return buf[:n], err
		}
	}
	answer, err := read(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out.Output = string(answer)
	return out, nil
}

func askNatively(ctx context.Context, c *sdk.Config) (probe.Outcome, error) {
	var r struct {
		sdk.HTTPRequest
		Headers map[string]string
	}
	if err := json.Unmarshal([]byte(c.String("request", "")), &r); err != nil {
		return probe.Outcome{}, err
	}
	r.Header, r.Body = r.Headers, []byte(c.String("body", ""))
	resp, err := sdk.HTTP(ctx, r.HTTPRequest)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%s", body), nil
}

// judge runs a case with [native] in a bubble, and returns its failures.
func judge(t *testing.T, c *plugintest.Case) (failures []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := plugintest.NewNative(c)
		ctx := sdk.WithHost(t.Context(), sdk.Host{
			Dial: n.DialContext, Handshake: n.Handshake, RoundTrip: n.RoundTrip, DNSServers: n.DNSServers(), KV: n.KV,
			Echo: func(ctx context.Context, q sdk.EchoRequest) (sdk.EchoReply, error) {
				addrs, err := n.LookupIP(ctx, q.Host)
				if err != nil {
					return sdk.EchoReply{}, err
				}
				got, err := n.Echo(ctx, wasm.EchoRequest{Addr: addrs[0], Payload: 56, HopLimit: q.HopLimit})
				return sdk.EchoReply{Local: got.Local.String(), Remote: addrs[0].String(), HopLimit: got.HopLimit, RTT: got.RTT}, err
			},
		})
		handler, err := sdk.Native(sdk.Func(native)).Prepare(c.ConfigJSON(), c.Target)
		if err != nil {
			failures = n.Check(probe.Outcome{}, plugintest.ConfigError(err), 0)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		start := time.Now()
		out, err := handler.Probe(ctx, n.Request())
		failures = n.Check(out, err, time.Since(start))
	})
	return failures
}

// TestNativePassesCases runs the cases of the guest without a sandbox.
func TestNativePassesCases(t *testing.T) {
	t.Parallel()
	sandbox := map[string]bool{ // cases that only a guest can pass
		"randomness has a seed": true, "time passes where it is waited for": true, "a config that is refused": true,
		"nothing is kept without a grant": true, "a look-up that is not granted": true, "the first question is lost": true,
		"the head": true, "TLS of a page": true, "a page with an expired certificate that is not looked at": true,
		"dns garbage": true,
	}
	ran := 0
	for _, path := range []string{"testdata/good_test.yaml", "testdata/web_test.yaml", "testdata/dns_test.yaml", "testdata/icmp_test.yaml"} {
		f, err := plugintest.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Cases {
			c := &f.Cases[i]
			if sandbox[c.Name] || c.NeedsSandbox() != "" || strings.Contains(path, "dns") && c.Want.Message.Source != "" && strings.Contains(c.Want.Message.Source, `"`) {
				continue
			}
			ran++
			t.Run(c.Name, func(t *testing.T) {
				for _, failure := range judge(t, c) {
					t.Error(failure)
				}
			})
		}
	}
	if ran < 45 {
		t.Errorf("%d cases ran natively", ran)
	}
}

func TestNativeCheckReturnsFailures(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, request: {target: {host: a, port: 1}}, want: {result: success, kv: {a: b}}, host: {net: [{dial: "tcp://a:2"}]}}
- {name: b, request: {config: {do: sleep}}, want: {result: success, virtualTime: 2s}}
- {name: c, request: {config: {do: error}}, want: {result: success}}
- {name: d, request: {config: {do: dns, request: '{"name":"x"}'}}, host: {dns: [{name: x, answers: [10.0.0.1]}]}, want: {result: success, message: none}}
`)
	for i, want := range [][]string{
		{"-result: success", "+result: failure", `-kv: map["a":"b"]`, "the plugin dials tcp://a:1, for which host.net has no peer", "tcp://a:2 is never dialled"},
		{"+result: failure", "+virtualTime: 1h0m0s"},
		{"+result: error(guest)\n+message: not today"},
		{`"Data":"10.0.0.1"`, `"Server":"10.99.255.53:53"`},
	} {
		got := strings.Join(judge(t, &f.Cases[i]), "\n")
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: no %q in\n%s", f.Cases[i].Name, text, got)
			}
		}
	}
}

func TestNeedsSandboxReturnsReason(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, want: {result: success, denied: []}}
- {name: b, want: {result: error(trap)}}
- {name: c, want: {result: failure, denied: [/a/]}}
`)
	for i, want := range []string{"", "error(trap)", "denials"} {
		if got := f.Cases[i].NeedsSandbox(); got != want {
			t.Errorf("%s: got %q, want %q", f.Cases[i].Name, got, want)
		}
	}
}

// TestNativeReadEndsAtDeadline sets the deadline while the read blocks.
func TestNativeReadEndsAtDeadline(t *testing.T) {
	t.Parallel()
	f := load(t, `
- name: a
  want: {result: success}
  host: {net: [{dial: "tcp://a:1", latency: 1s, script: [{send: {text: one}}, {wait: 1h}, {send: {text: two}}, {close: {}}]}]}
`)
	synctest.Test(t, func(t *testing.T) {
		n := plugintest.NewNative(&f.Cases[0])
		conn, err := n.DialContext(t.Context(), "tcp4", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		if size, err := conn.Read(buf); string(buf[:size]) != "one" || err != nil {
			t.Errorf("got %q, %v", buf[:size], err)
		}
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { _ = conn.SetReadDeadline(time.Now().Add(time.Second)) })
		_, err = conn.Read(buf)
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || time.Since(begun) != 61*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		_ = conn.SetDeadline(time.Time{})
		rest, err := io.ReadAll(conn)
		if string(rest) != "two" || err != nil {
			t.Errorf("got %q, %v", rest, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if _, err := conn.Write(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after Close: got %v", err)
		}
	})
}
