package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxHostile is the maximum memory of an agent with few probes under attack by hostile clients, in bytes. It
// is the figure in docs/secure/what-clients-can-cost.md.
const maxHostile = 256 << 20

// attack sends the output of write to the agent, and reads responses until the agent closes the connection or
// the test ends.
func (a *agentProcess) attack(t *testing.T, write func(io.Writer) error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_ = write(conn) // fails when the agent ends the connection
	_, _ = io.Copy(io.Discard, conn)
}

// flood writes text until it has written n bytes.
func flood(w io.Writer, text string, n int) error {
	chunk := []byte(strings.Repeat(text, 64<<10/len(text)))
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func TestHostileClients(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	const action = "POST /api/v1/probes/default/shop/web/readiness/pause HTTP/1.1\r\nHost: localhost\r\n"
	attacks := map[string]func(io.Writer) error{
		"slow headers": func(w io.Writer) error {
			_, err := io.WriteString(w, "GET / HTTP/1.1\r\nHost: localhost\r\nX")
			return err
		},
		"a large body": func(w io.Writer) error {
			if _, err := io.WriteString(w, action+"Content-Length: 1073741824\r\n\r\n"); err != nil {
				return err
			}
			return flood(w, "x", 1<<30)
		},
		"a body in chunks": func(w io.Writer) error {
			if _, err := io.WriteString(w, action+"Transfer-Encoding: chunked\r\n\r\n"); err != nil {
				return err
			}
			return flood(w, "1\r\nx\r\n", 1<<30)
		},
		"headers without end": func(w io.Writer) error {
			if _, err := io.WriteString(w, "GET / HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
				return err
			}
			return flood(w, "a:\r\nb:\r\nc:\r\n", 1<<30)
		},
		"a long header": func(w io.Writer) error {
			if _, err := io.WriteString(w, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "); err != nil {
				return err
			}
			return flood(w, "x", 1<<30)
		},
		"a long request line":   func(w io.Writer) error { return flood(w, "GET", 1<<30) },
		"no HTTP":               func(w io.Writer) error { return flood(w, "\x16\x03\x01\x00\xff\r\n\x1b[2J", 1<<20) },
		"wrong tokens":          wrongTokens(10_000 / 100),
		"hostile names in URLs": hostileNames,
	}
	each := 100
	if race {
		each = 20
	}
	var attacking sync.WaitGroup
	for _, write := range attacks {
		for range each {
			attacking.Go(func() { r.agent.attack(t, write) })
		}
	}
	attacking.Wait()
	r.await(t, "success") // it responds, and still probes
	if got := r.agent.peak(t); got > maxHostile && !race {
		t.Errorf("the agent took %d MiB, want at most %d", got>>20, maxHostile>>20)
	} else {
		t.Logf("the agent took %d MiB", got>>20)
	}
	late, total := r.agent.lateTicks(t, "10"), r.agent.lateTicks(t, "0")
	if late > 0 && !race {
		t.Errorf("%d of %d ticks were 10 s late", late, total)
	}
	t.Logf("%d of %d ticks were 250 ms late, %d 2.5 s", r.agent.lateTicks(t, "0.25"), total, r.agent.lateTicks(t, "2.5"))
	code, stdout, stderr := r.run(t, "get", "probes", "-o", "jsonpath={.items[*].paused} {.items[*].result}")
	if code != 0 || stdout != "false false success success\n" {
		t.Errorf("after the attacks: %d %q %s", code, stdout, stderr)
	}
}

// wrongTokens sends n wrong tokens.
func wrongTokens(n int) func(io.Writer) error {
	return func(w io.Writer) error {
		for i := range n {
			end := ""
			if i == n-1 {
				end = "Connection: close\r\n"
			}
			if _, err := fmt.Fprintf(w, "POST /-/reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %026d\r\nContent-Length: 0\r\n%s\r\n", i, end); err != nil {
				return err
			}
		}
		return nil
	}
}

// hostileNames sends an action on a probe with an invalid name.
func hostileNames(w io.Writer) error {
	_, err := fmt.Fprintf(w, "POST /api/v1/probes/%s/%%1b%%5b2J/%%ff/%%0alevel=ERROR/pause HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("<script>", 1000))
	return err
}

// peak returns the peak memory of the agent, in bytes.
func (a *agentProcess) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(a.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// lateTicks returns the number of ticks that began more than a number of seconds late. This number is the
// bound of a bucket, or 0 for all ticks.
func (a *agentProcess) lateTicks(t *testing.T, seconds string) int {
	t.Helper()
	res, err := http.Get(a.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	count := func(series string) int {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\d+)$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no %s", series)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := count(`prober_schedule_lag_seconds_bucket{le="+Inf"}`)
	if seconds == "0" {
		return all
	}
	return all - count(`prober_schedule_lag_seconds_bucket{le="`+seconds+`"}`)
}
