// Guest is a plugin for the tests of handlers/wasm. Its config selects its behaviour.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/sdkhttp"
)

func main() {}

func init() { sdk.Register(guest{}) }

type guest struct{}

var leftover []byte

func (guest) ValidateConfig(c *sdk.Config) error {
	if c.Has("reject") {
		return errors.New("config: reject: " + c.String("reject", ""))
	}
	return nil
}

func (guest) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	switch do := r.Config.String("do", "success"); do {
	case "success":
		return sdk.Successf("ok"), nil
	case "long":
		return sdk.Successf("%s", strings.Repeat("long ", 10_000)), nil
	case "warning":
		return sdk.Warningf("so so"), nil
	case "failure":
		return sdk.Failuref("no"), nil
	case "unknown":
		return sdk.Unknownf("who knows"), nil
	case "error":
		return probe.Outcome{}, errors.New("cannot tell")
	case "request":
		return sdk.Successf("%s", describe(r)), nil
	case "metrics":
		out := sdk.Successf("measured")
		out.Metrics = []probe.Metric{{Name: "lag_seconds", Value: 1.5, Unit: "s"}, {Name: "clients", Value: 3}}
		if r.Config.Has("label") {
			out.Metrics[1].Labels = map[string]string{"role": r.Config.String("label", "")}
		}
		return out, nil
	case "details":
		out := sdk.Successf("detailed")
		out.Details = `{"db":{"slots":3}}`
		if n := r.Config.Int("long", 0); n > 0 {
			out.Output, out.Details = strings.Repeat("x", n), `{"a":"`+strings.Repeat("x", n)+`"}`
		}
		return out, nil
	case "log":
		r.Logf(sdk.Info, "hello from %s", r.Container.Name)
		fmt.Println("on stdout")
		fmt.Fprintln(os.Stderr, "on stderr")
		return sdk.Successf("logged"), nil
	case "echo":
		return echo(ctx, r, sdk.Dial)
	case "elsewhere":
		r.Target.Port = r.Config.Int("port", 0)
		return echo(ctx, r, sdk.Dial)
	case "closed":
		return closed(ctx, r)
	case "joined":
		return joined(ctx, r)
	case "udp":
		return datagrams(ctx, r)
	case "starttls":
		return startTLS(ctx, r)
	case "dial":
		return dial(ctx, r)
	case "get":
		return get(ctx, r)
	case "getDefault":
		return getDefault(ctx, r)
	case "handles":
		return handles(ctx, r)
	case "write":
		return write(ctx, r)
	case "read":
		return read(ctx, r)
	case "sleep":
		time.Sleep(time.Hour)
	case "spin":
		for {
		}
	case "state":
		leftover = append(leftover, 'x')
		return sdk.Successf("%d", len(leftover)), nil
	case "allocate":
		keep := make([][]byte, 0, 1024)
		for {
			keep = append(keep, make([]byte, 1<<20))
		}
	case "panic":
		panic("out of order")
	case "exit":
		os.Exit(r.Config.Int("code", 0))
	default:
		return probe.Outcome{}, fmt.Errorf("unknown do %q", do)
	}
	return sdk.Unknownf("unreachable"), nil
}

func describe(r *sdk.Request) string {
	return fmt.Sprintf("%v %d %v %v %d %v %v %v/%v %v %v %v", r.Kind, r.Attempt, r.Period, r.Timeout, r.FailureThreshold,
		r.LastResult, r.Addr(), r.Pod.Namespace, r.Pod.Name, r.Container.Name, r.Pod.Labels["app"], r.Config.Int("count", 7))
}

func echo(ctx context.Context, r *sdk.Request, _ any) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "hello\n"); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%s via %s", line[:len(line)-1], conn.RemoteAddr()), nil
}

func dial(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := sdk.Dial(ctx, r.Config.String("network", "tcp"), r.Config.String("addr", r.Addr()))
	if err != nil {
		return sdk.Failuref("%v; permission=%v", err, errors.Is(err, os.ErrPermission)), nil
	}
	return sdk.Successf("connected"), conn.Close()
}

func get(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	return fetch(ctx, &http.Client{Transport: sdkhttp.Transport()}, r)
}

func getDefault(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	return fetch(ctx, http.DefaultClient, r)
}

func fetch(ctx context.Context, client *http.Client, r *sdk.Request) (probe.Outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+r.Config.String("path", "/"), nil)
	if err != nil {
		return probe.Outcome{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%d %s", resp.StatusCode, body), nil
}

// handles dials until the host refuses.
func handles(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	for n := 0; ; n++ {
		conn, err := r.Dial(ctx)
		if err != nil {
			return sdk.Failuref("%d: %v", n, err), nil
		}
		if !r.Config.Bool("hold", false) {
			conn.Close()
		}
	}
}

// write writes until the host refuses.
func write(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return probe.Outcome{}, err
	}
	n, err := conn.Write(make([]byte, 1<<20))
	return sdk.Failuref("%d: %v", n, err), nil
}

// read reads until the host refuses.
func read(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return probe.Outcome{}, err
	}
	n, err := io.Copy(io.Discard, conn)
	return sdk.Failuref("%d: %v", n, err), nil
}

// datagrams sends three datagrams and reports the replies. The buffers cut the second and the third.
func datagrams(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := sdk.Dial(ctx, "udp", r.Addr())
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	var got []string
	for i, text := range []string{"first", "second", "third"} {
		if _, err := io.WriteString(conn, text); err != nil {
			return sdk.Failuref("%v", err), nil
		}
		buf := make([]byte, []int{100, 6, 1}[i])
		n, err := conn.Read(buf)
		if err != nil {
			return sdk.Failuref("%v", err), nil
		}
		got = append(got, string(buf[:n]))
	}
	return sdk.Successf("%s", strings.Join(got, " ")), nil
}

// joined reads while no other goroutine runs at first, and then while another one runs.
func joined(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	done, ended := make(chan struct{}), make(chan struct{})
	time.AfterFunc(5*time.Millisecond, func() { <-done; close(ended) })
	text, err := io.ReadAll(conn)
	close(done)
	<-ended
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%s", text), nil
}

// closed reads from a connection that it has closed.
func closed(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err == nil {
		_ = conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	return sdk.Failuref("%v", err), nil
}

func startTLS(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	plain, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer plain.Close()
	if _, err := io.ReadFull(plain, make([]byte, len("ready"))); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	conn, err := sdk.StartTLS(ctx, plain, sdk.TLSOptions{CA: r.Config.String("ca", "")})
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	certs, err := sdk.PeerCertificates(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%s from %v", text, certs[0].SANs), nil
}
