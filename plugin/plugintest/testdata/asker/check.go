// Asker asks its target for a line. It is built as a guest, as a process, and into its own
// tests, from this one source; asker_test.yaml is for all three.
package main

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

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	if strings.Contains(c.String("say", ""), "\n") {
		return fmt.Errorf("say: must be one line")
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
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
	case "get":
		return get(ctx, r)
	}
	if r.Config.String("crash", "") != "" {
		os.Exit(4)
	}
	network := r.Config.String("network", "tcp")
	if r.Target.Unix != "" {
		network = "unix"
	}
	conn, err := sdk.Dial(ctx, network, r.Addr())
	if err != nil {
		return sdk.Failuref("nobody is at %s: %v", r.Addr(), err), nil
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprintln(conn, r.Config.String("say", "hello")); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return sdk.Failuref("no line: %v", err), nil
	}
	fmt.Fprintln(conn, "bye") // whoever has hung up does not hear it
	return answered(r, strings.TrimSpace(line))
}

// get asks for a page.
func get(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	page, err := sdk.HTTP(ctx, sdk.HTTPRequest{URL: r.Config.String("url", "http:///health")})
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)
	if err != nil {
		return sdk.Failuref("%d, and then %v", page.Status, err), nil
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
