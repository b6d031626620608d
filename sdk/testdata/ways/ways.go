// Package ways is a plugin that uses every SDK function that calls the host. The field do of its config
// selects the function.
package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/sdkhttp"
)

// Probe calls the function that the config selects.
func Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	ways := map[string]func(context.Context, *sdk.Request) (string, error){
		"http": overHTTP, "client": overClient, "dns": overDNS, "kv": overKV, "dial": overDial, "keep": keep, "echo": echo,
		"context": ofContext, "keepContext": keepContext, "keepLookup": keepLookup, "keepReader": keepReader,
		"change": change, "reads": reads, "options": withOptions, "cookies": cookies, "dialer": overDialer, "wait": wait,
		"features": features,
	}
	text, err := ways[r.Config.String("do", "dial")](ctx, r)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if r.Config.Bool("error", false) {
		return probe.Outcome{}, fmt.Errorf("%s, but no verdict", text)
	}
	return sdk.Successf("%s", text), nil
}

func overHTTP(ctx context.Context, r *sdk.Request) (string, error) {
	resp, err := sdk.HTTP(ctx, sdk.HTTPRequest{
		Method:    r.Config.String("method", ""),
		URL:       r.Config.String("url", "http:///"),
		Header:    map[string]string{"X-Probe": r.Container.Name},
		Body:      []byte(r.Config.String("body", "")),
		Redirects: r.Config.Int("redirects", 0),
		TLS:       sdk.TLSOptions{CA: r.Config.String("ca", ""), ServerName: r.Config.String("serverName", "")},
	})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	text := fmt.Sprintf("%d %s %s after %d: %s", resp.Status, resp.Proto, resp.Header["x-answer"], resp.Redirects, body)
	if resp.TLS != nil {
		text += " over " + resp.TLS.Version + " of " + resp.TLS.Certificates[0].SANs[0]
	}
	if resp.Timings.FirstByte <= 0 || resp.Remote == "" || resp.URL == "" {
		text += fmt.Sprintf(" but %+v %q %q", resp.Timings, resp.Remote, resp.URL)
	}
	return text, err
}

// withOptions makes a request with the options in the config.
func withOptions(ctx context.Context, r *sdk.Request) (string, error) {
	c := r.Config
	q := sdk.HTTPRequest{
		URL: c.String("url", "http:///"), Redirects: c.Int("redirects", 0), Timeout: c.Duration("timeout", 0), HTTP2: c.Bool("http2", false),
		Decompress: c.String("decompress", ""), IPFamily: c.String("ipFamily", ""), SourceAddress: c.String("sourceAddress", ""),
		Proxy: c.String("proxy", ""), TLS: tlsOf(c),
	}
	if q.Proxy != "" {
		q.ProxyHeader = map[string]string{"X-Team": "shop"}
	}
	resp, err := sdk.HTTP(ctx, q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	text := fmt.Sprintf("%d %s, %d bytes: %s", resp.Status, resp.Proto, resp.Length, body)
	if resp.Phases.Connect < resp.Timings.Connect || resp.Phases.Processing <= 0 {
		text += fmt.Sprintf(" but %+v", resp.Phases)
	}
	return text, err
}

func tlsOf(c *sdk.Config) sdk.TLSOptions {
	return sdk.TLSOptions{
		CA: c.String("ca", ""), Credentials: c.String("credentials", ""), MinVersion: c.String("minVersion", ""), MaxVersion: c.String("maxVersion", ""),
		ServerName: c.String("serverName", ""), ALPN: c.Strings("alpn"), InsecureSkipVerify: c.Bool("insecure", false),
	}
}

// cookies returns the cookies of a response, by both clients.
func cookies(ctx context.Context, r *sdk.Request) (string, error) {
	resp, err := sdk.HTTP(ctx, sdk.HTTPRequest{URL: "http:///cookies"})
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+"/cookies", http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: sdkhttp.ByHost{IPFamily: "4"}}
	other, err := client.Do(req)
	if err != nil {
		return "", err
	}
	other.Body.Close()
	names := ""
	for _, c := range other.Cookies() {
		names += " " + c.Name
	}
	return fmt.Sprintf("%q %q %q%s", resp.Values("set-cookie"), resp.Values("x-one"), resp.Values("x-none"), names), nil
}

// overDialer dials with the options in the config.
func overDialer(ctx context.Context, r *sdk.Request) (string, error) {
	d := sdk.Dialer{IPFamily: r.Config.String("ipFamily", ""), SourceAddress: r.Config.String("sourceAddress", ""), TLS: tlsOf(r.Config)}
	conn, err := d.DialContext(ctx, r.Config.String("network", "tcp"), r.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := sdk.Inspect(conn)
	if info.Peer != nil {
		return fmt.Sprintf("%s, %s, %q", info.Network, info.Peer.Version, info.Peer.ALPN), err
	}
	host, _, _ := net.SplitHostPort(info.Local)
	return info.Network + " from " + host, err
}

// wait reports its progress, and waits for the deadline.
func wait(ctx context.Context, r *sdk.Request) (string, error) {
	r.Progressf("%d of %d replicas", 1, 3)
	<-ctx.Done()
	return "", ctx.Err()
}

func features(_ context.Context, r *sdk.Request) (string, error) {
	return fmt.Sprint(r.Features), nil
}

func overClient(ctx context.Context, r *sdk.Request) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.Addr()+"/moved", http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: sdkhttp.ByHost{}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%s %s %d from %s", resp.Status, body, resp.ContentLength, sdkhttp.Details(resp).Proto), err
}

func overDNS(ctx context.Context, r *sdk.Request) (string, error) {
	answer, err := sdk.LookupDNS(ctx, sdk.DNSQuery{
		Name: r.Config.String("name", ""), Type: r.Config.String("type", ""), Server: r.Config.String("server", ""),
	})
	text := answer.RCode
	for _, a := range answer.Answers {
		text += fmt.Sprintf(" %s %s %d %s", a.Name, a.Type, a.TTL, a.Data)
	}
	return text, err
}

func echo(ctx context.Context, r *sdk.Request) (string, error) {
	reply, err := sdk.Echo(ctx, sdk.EchoRequest{
		Host: r.Config.String("host", ""), IPFamily: r.Config.String("family", ""), Payload: r.Config.Int("payload", 0), HopLimit: 7, DontFragment: true,
	})
	return fmt.Sprintf("%d bytes from %s to %s, hop limit %d, after %v", reply.Payload, reply.Remote, reply.Local, reply.HopLimit, reply.RTT), err
}

func overKV(_ context.Context, r *sdk.Request) (string, error) {
	kept, err := r.KV().Get("n")
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(string(kept))
	if n == r.Config.Int("until", 3) {
		return "forgotten", r.KV().Delete("n")
	}
	if size := r.Config.Int("size", 0); size > 0 {
		return "", r.KV().Set("large", make([]byte, size))
	}
	return fmt.Sprintf("%d was kept as %q", n, kept), r.KV().Set("n", strconv.AppendInt(nil, int64(n+1), 10))
}

func overDial(ctx context.Context, r *sdk.Request) (string, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := sdk.Inspect(conn)
	return fmt.Sprintf("%s to %s", info.Network, info.Remote), err
}

// kept is the connection of the last attempt, if the guest was not reset.
var kept net.Conn

// keep dials, and then uses the connection of an earlier attempt. It returns whether each use failed.
func keep(ctx context.Context, r *sdk.Request) (string, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return "", err
	}
	old := kept
	if kept = conn; old == nil {
		return "the first", nil
	}
	_, err = old.Read(make([]byte, 1))
	_, writeErr := old.Write([]byte("x"))
	closeErr := old.Close()
	_, ownErr := io.WriteString(conn, "own")
	return fmt.Sprintf("%t %t %t %v", errors.Is(err, net.ErrClosed), errors.Is(writeErr, net.ErrClosed), errors.Is(closeErr, net.ErrClosed), ownErr), nil
}

// ofContext describes the context of the attempt and a context derived from it.
func ofContext(ctx context.Context, r *sdk.Request) (string, error) {
	before := ctx.Err()
	child, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	deadline, ok := ctx.Deadline()
	again, _ := ctx.Deadline()
	same, _ := child.Deadline()
	left := time.Until(deadline)
	return fmt.Sprintf("%t %t %t %t %v %v %v", ok, deadline.Equal(again), deadline.Equal(same), 0 < left && left <= r.Timeout+time.Second,
		before, ctx.Err(), child.Err()), nil
}

// keptContext is the context of the last attempt, if the guest was not reset.
var keptContext context.Context

// keepContext describes the context of an earlier attempt. With the option ask, the attempt calls Done of
// its own context.
func keepContext(ctx context.Context, r *sdk.Request) (string, error) {
	old := keptContext
	if keptContext = ctx; r.Config.Bool("ask", false) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		default:
		}
	}
	if old == nil {
		return "the first", nil
	}
	err := old.Err()
	<-old.Done()
	deadline, ok := old.Deadline()
	_, dialErr := r.Dial(old)
	return fmt.Sprintf("%v %v %t %t %t", err, old.Err(), ok, time.Until(deadline) <= r.Timeout+time.Second, errors.Is(dialErr, context.Canceled)), nil
}

// keptLookup receives the error of a look-up that an earlier attempt left running.
var keptLookup chan error

// keepLookup starts a look-up, or returns whether the look-up of an earlier attempt has failed.
func keepLookup(ctx context.Context, r *sdk.Request) (string, error) {
	if ended := keptLookup; ended != nil {
		return fmt.Sprint(errors.Is(<-ended, net.ErrClosed)), nil
	}
	keptLookup = make(chan error, 1)
	begun := false
	go func() {
		begun = true
		_, err := overDNS(ctx, r)
		keptLookup <- err
	}()
	for !begun {
		runtime.Gosched()
	}
	return "the first", nil
}

// keptReader is true if an earlier attempt left a goroutine that reads.
var keptReader bool

// keepReader reads from a target that sends nothing. It returns whether the read timed out, and whether the
// guest slept meanwhile.
func keepReader(ctx context.Context, r *sdk.Request) (string, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return "", err
	}
	if !keptReader {
		go func() {
			keptReader = true
			_, _ = conn.Read(make([]byte, 1))
		}()
		for !keptReader {
			runtime.Gosched()
		}
		return "the first", nil
	}
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return "", err
	}
	turns, ended := 0, false
	go func() {
		for ; !ended; runtime.Gosched() {
			turns++
		}
	}()
	_, err = conn.Read(make([]byte, 1))
	ended = true
	return fmt.Sprintf("%t %t", errors.Is(err, os.ErrDeadlineExceeded), turns < 400), nil // each sleep takes 1 ms or more
}

// change describes the request, and then changes it.
func change(_ context.Context, r *sdk.Request) (string, error) {
	text := fmt.Sprintf("%s:%d attempt %d, %s, %q", r.Target.Host, r.Target.Port, r.Attempt, r.Config.String("name", "nobody"), r.Container.Name)
	r.Target.Port++
	r.Attempt++
	r.Container = probe.Container{}
	return text, nil
}

// reads reads from a target that echoes bytes and closes after ".": alone, while another goroutine runs,
// and alone again.
func reads(ctx context.Context, r *sdk.Request) (string, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	read := func() string {
		buf := make([]byte, 8)
		n, err := conn.Read(buf)
		if err != nil {
			return fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded), err == io.EOF)
		}
		return string(buf[:n])
	}
	ask := func(text string) { _, err = io.WriteString(conn, text) }
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	got := []string{read()}
	_ = conn.SetReadDeadline(time.Time{})
	ask("a")
	got = append(got, read())
	answer := make(chan string)
	go func() { answer <- read() }()
	runtime.Gosched()
	ask("b")
	got = append(got, <-answer)
	ask("c")
	got = append(got, read())
	ask(".")
	return fmt.Sprint(append(got, read(), read())), err
}
