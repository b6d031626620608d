// Guest is a plugin whose config determines its actions.
package main

import (
	"context"
	crypto "crypto/rand"
	"fmt"
	"io"
	"math/rand"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(guest{}) }

type guest struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (guest) ValidateConfig(c *sdk.Config) error {
	if c.String("do", "") == "panic early" {
		panic("early")
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (guest) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	if out, err, done := misbehave(ctx, r); done {
		return out, err
	}
	switch do := r.Config.String("do", "talk"); do {
	case "talk":
		return talk(ctx, r, r.Config.String("say", "hello\n"))
	case "once": // it closes its connection some time before it ends
		out, err := talk(ctx, r, "hello\n")
		time.Sleep(r.Config.Duration("for", time.Second))
		return out, err
	case "talks":
		return talks(ctx, r)
	case "sleep":
		time.Sleep(r.Config.Duration("for", time.Hour))
		return sdk.Successf("slept until %v", time.Now().UTC().Format(time.RFC3339)), nil
	case "random":
		return sdk.Successf("%d", rand.Int63()), nil
	case "nonce":
		nonce := make([]byte, 16)
		if _, err := io.ReadFull(crypto.Reader, nonce); err != nil {
			return probe.Outcome{}, err
		}
		return talk(ctx, r, fmt.Sprintf("%x\n", nonce))
	case "spin":
		for {
		}
	case "panic":
		panic("as asked")
	case "dial":
		_, err := sdk.Dial(ctx, r.Config.String("network", "tcp"), r.Config.String("addr", ""))
		return sdk.Failuref("%v", err), nil
	case "http":
		return ask(r.Config), nil
	case "dns":
		return lookUp(r.Config), nil
	case "echo":
		return ping(ctx, r.Config), nil
	case "count":
		n, code := count()
		return sdk.Successf("%d, %d", n, code), nil
	case "error":
		return probe.Outcome{}, fmt.Errorf("not today")
	default:
		return sdk.Successf("%s", do), nil
	}
}

// talks talks over several connections, one after the other.
func talks(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	all := sdk.Successf("")
	for _, text := range r.Config.Strings("says") {
		out, err := talk(ctx, r, text)
		if err != nil || out.Result != probe.Success {
			return out, err
		}
		all.Output += out.Output
	}
	return all, nil
}

// talk sends a text to the target and returns its answer.
func talk(ctx context.Context, r *sdk.Request, text string) (probe.Outcome, error) {
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
	out := sdk.Successf("")
	out.Metrics = []probe.Metric{{Name: "connect_seconds", Value: time.Since(start).Seconds(), Unit: "s"}}
	if _, err := io.WriteString(conn, text); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	read := io.ReadAll
	if network == "udp" || r.Config.String("do", "") == "once" {
		read = datagram
	}
	answer, err := read(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out.Output = string(answer)
	return out, nil
}

func datagram(r io.Reader) ([]byte, error) {
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	return buf[:n], err
}
