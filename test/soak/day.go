//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A day of probes at 10 s, a hundred times faster.
const (
	dayTargets = 1000
	dayPeriod  = 100 * time.Millisecond
	dayScrape  = 300 * time.Millisecond // 30 s
	// Each target fails for five minutes, every four hours.
	outageEvery = 1440 // periods
	outageLasts = 30   // periods
)

// dayPoints is the number of progress lines of a day.
const dayPoints = 12

// dayResources are the resources that must not grow in the last third of a day.
var dayResources = []growthLimit{
	{"memory (rss)", func(s size) float64 { return s.rss }, 0.02, 1 << 20, mib},
	{"anonymous memory", func(s size) float64 { return s.anonymous }, 0.02, 1 << 20, mib},
	{"heap in use", func(s size) float64 { return s.heap }, 0.02, 1 << 20, mib},
	{"stacks", func(s size) float64 { return s.stacks }, 0.02, 1 << 20, mib},
	{"goroutines", func(s size) float64 { return s.goroutines }, 0.02, 20, number},
	{"descriptors", func(s size) float64 { return s.fds }, 0.02, 20, number},
	{"threads", func(s size) float64 { return s.threads }, 0.02, 2, number},
}

// runDay runs an agent with [dayTargets] HTTP targets and a history until it has made o.day ticks, and checks that
// its memory does not grow in the last third.
func runDay(ctx context.Context, o *options, r *report) error {
	var c children
	defer c.end()
	all, log, err := runTargets(context.WithoutCancel(ctx), &c)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	config := filepath.Join(o.temp, "day.yaml")
	if err := os.WriteFile(config, []byte(dayConfig(all.Odd.Outages)), 0o600); err != nil {
		return err
	}
	a, err := o.start(ctx, nil, nil, "--config", config, "--state-dir", filepath.Join(o.temp, "day"), "--log-level", "error")
	if err != nil {
		return err
	}
	defer a.kill()
	sizes, last, err := a.live(ctx, o.day, r)
	if err != nil {
		return err
	}
	with, err := a.scrape(true)
	if err != nil {
		return err
	}
	var results total
	for _, t := range with.totals {
		results = results.plus(t)
	}
	r.add("load", "%d targets, %.0f ticks (%.0f a second), %d of them failed", dayTargets, last.lag.total(), last.lag.total()/time.Since(r.begin).Seconds(), results.failed)
	if results.failed == 0 || results.failed > results.all/10 {
		r.fault("%d of %d ticks failed, and outages take one of %d", results.failed, results.all, outageEvery/outageLasts)
	}
	r.flat(sizes[len(sizes)*2/3:], dayResources)
	first, end := sizes[len(sizes)/3], sizes[len(sizes)-1]
	fmt.Printf("figures: RSS %s, anonymous %s, heap %s, stacks %s after a third; %s, %s, %s, %s at the end\n",
		mib(first.rss), mib(first.anonymous), mib(first.heap), mib(first.stacks), mib(end.rss), mib(end.anonymous), mib(end.heap), mib(end.stacks))
	a.end(r)
	return nil
}

// live scrapes and measures the agent until it has made the given number of ticks. It prints [dayPoints] lines.
func (a *agent) live(ctx context.Context, ticks int, r *report) (sizes []size, last scrape, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := 0
	every(ctx, dayScrape, func(int) {
		var s size
		if !a.runs() {
			err = fmt.Errorf("the agent has ended: %v", a.cmd.ProcessState)
		} else if s, err = a.measure(); err == nil {
			last, err = a.scrape(false)
		}
		if err != nil {
			cancel()
			return
		}
		s.addRuntime(last)
		sizes = append(sizes, s)
		done := last.lag.total() / float64(ticks)
		if done*dayPoints >= float64(next) {
			next++
			fmt.Printf("%8v  %3.0f %% of the ticks, rss %s, anonymous %s, heap %s, stacks %s, %.0f goroutines, %.0f descriptors\n",
				time.Since(r.begin).Round(time.Second), done*100, mib(s.rss), mib(s.anonymous), mib(s.heap), mib(s.stacks), s.goroutines, s.fds)
		}
		if done >= 1 {
			cancel()
		}
	})
	if err == nil && last.lag.total() < float64(ticks) {
		err = context.Canceled
	}
	return sizes, last, err
}

// dayConfig returns a prober.yaml with targets on the given port, each with an address of its own.
func dayConfig(port int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: prober.dev/v1\nkind: AgentConfig\ntargets:\n- name: day\n  probe: {httpGet: {path: /}, period: %v, timeout: 5s, failureThreshold: 3}\n  static:\n", dayPeriod)
	for n := range dayTargets {
		ip := address(n)
		fmt.Fprintf(&b, "  - %d.%d.%d.%d:%d\n", ip[0], ip[1], ip[2], ip[3], port)
	}
	return b.String()
}

// speakOutages answers one request, with an error during an outage of the address that the client has dialled.
func speakOutages(conn net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReaderSize(conn, 512)); err != nil {
		return
	}
	status := "200 OK"
	if ip := conn.LocalAddr().(*net.TCPAddr).IP.To4(); outage(int(ip[2])<<8|int(ip[3]), time.Now()) {
		status = "503 Service Unavailable"
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n", status)
}

// outage reports whether a target fails at a time. The outages of the targets are spread evenly.
func outage(target int, at time.Time) bool {
	offset := target * outageEvery / dayTargets
	return (int(at.UnixNano()/int64(dayPeriod))+offset)%outageEvery < outageLasts
}
