// Package check asks its target for a line. It is built into a guest, a process and the tests of
// plugintest; asker_test.yaml is for all three.
package check

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// Plugin is the plugin.
type Plugin struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (Plugin) ValidateConfig(c *sdk.Config) error {
	if strings.Contains(c.String("say", ""), "\n") {
		return fmt.Errorf("say: must be one line")
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (Plugin) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	switch r.Config.String("do", "") {
	case "crash":
		os.Exit(3)
	case "deaf": // to its deadline
		time.Sleep(time.Minute)
	case "hold": // a connection beyond its deadline
		if conn, err := net.Dial("tcp", r.Addr()); err == nil {
			defer conn.Close()
			time.Sleep(time.Minute)
		}
	case "flood": // which leaves no room for anything else
		conn, err := sdk.Dial(ctx, "udp", r.Addr())
		if err != nil {
			return probe.Outcome{}, err
		}
		defer conn.Close()
		for i := range 2000 { // of all sizes, the least last
			_, _ = conn.Write(make([]byte, max(1, 1000-i)))
		}
		return sdk.Successf("all sent"), nil
	case "get":
		return get(ctx, r)
	case "lookup":
		return lookup(ctx, r)
	}
	if r.Config.String("crash", "") != "" {
		os.Exit(4)
	}
	network := r.Config.String("network", "tcp")
	if r.Target.Unix != "" {
		network = "unix"
	}
	addr := r.Config.String("other", r.Addr())
	conn, err := sdk.Dial(ctx, network, addr)
	if err != nil {
		return sdk.Failuref("nobody is at %s: %v", addr, err), nil
	}
	defer func() { conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if r.Config.String("do", "") == "starttls" {
		if conn, err = upgrade(ctx, r, conn); err != nil {
			return sdk.Failuref("%v", err), nil
		}
	}
	if _, err := fmt.Fprintln(conn, r.Config.String("say", "hello")); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return sdk.Failuref("no line: %v", err), nil
	}
	fmt.Fprintln(conn, "bye") // whoever has hung up does not hear it
	certs, err := sdk.PeerCertificates(conn)
	if err != nil {
		return probe.Outcome{}, err
	}
	if line = strings.TrimSpace(line); len(certs) > 0 {
		line += fmt.Sprintf(" as %s of %s %q", certs[0].Subject, certs[0].Issuer, certs[0].SANs)
	}
	return answered(r, line)
}

// upgrade asks for TLS, and makes it.
func upgrade(ctx context.Context, r *sdk.Request, conn net.Conn) (net.Conn, error) {
	fmt.Fprintln(conn, "STARTTLS")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "go\n" {
		return conn, fmt.Errorf("no TLS: %q, %v", line, err)
	}
	secured, err := sdk.StartTLS(ctx, conn, sdk.TLSOptions{ServerName: r.Config.String("serverName", "")})
	if err != nil {
		return conn, err
	}
	return secured, nil
}

// lookup looks a name up.
func lookup(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	answer, err := sdk.LookupDNS(ctx, sdk.DNSQuery{
		Name: r.Config.String("name", ""), Type: r.Config.String("type", ""), Server: r.Config.String("server", ""),
	})
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	text := answer.RCode
	for _, a := range answer.Answers {
		text += fmt.Sprintf(", %s %s %s %d", a.Name, a.Type, a.Data, a.TTL)
	}
	out := sdk.Successf("%s after %v", text, answer.Took.Round(time.Millisecond))
	out.Metrics = []probe.Metric{{Name: "lookup_seconds", Value: answer.Took.Seconds(), Unit: "s"}}
	return out, nil
}

// get asks for a page.
func get(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	page, err := sdk.HTTP(ctx, sdk.HTTPRequest{URL: r.Config.String("url", "http:///health"), Redirects: r.Config.Int("redirects", 0)})
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)
	if err != nil {
		return sdk.Failuref("%d, and then %v", page.Status, err), nil
	}
	if to := page.Header["location"]; to != "" {
		return sdk.Warningf("%d to %s", page.Status, to), nil
	}
	return answered(r, fmt.Sprintf("%d %s%s", page.Status, page.Header["x-mood"], body))
}

// answered counts the answers.
func answered(r *sdk.Request, line string) (probe.Outcome, error) {
	kept, err := r.KV().Get("answers")
	if err != nil {
		return probe.Outcome{}, err
	}
	n, _ := strconv.Atoi(string(kept))
	if err := r.KV().Set("answers", []byte(strconv.Itoa(n+1))); err != nil {
		return probe.Outcome{}, err
	}
	out := sdk.Successf("%s says %s", r.Addr(), line)
	if strings.HasPrefix(line, "so-so") {
		out.Result = probe.Warning
	}
	out.Metrics = []probe.Metric{{Name: "answers", Value: float64(n + 1)}}
	return out, nil
}
