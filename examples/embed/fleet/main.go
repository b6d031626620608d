// Command fleet probes many endpoints, one HOST:PORT per line of its input. It prints an endpoint when its
// readiness changes.
//
//	go run ./fleet -period 30s <endpoints.txt
//
// The key of a probe is the number of its line. A probe takes about 1 KB, and no goroutine between attempts.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

// fleet probes endpoints. It is not safe for concurrent use.
type fleet struct {
	probes    *group.Group[int] // by number of endpoint
	addresses []string
	ready     int
}

// Add starts the probe of the next endpoint.
func (f *fleet) Add(address string, handler probe.Handler, period time.Duration) error {
	task := &worker.Task{Subject: results.Subject{Container: address}}
	task.SetState(worker.Running(fmt.Sprint(len(f.addresses)), time.Now()))
	err := f.probes.Add(len(f.addresses), group.Probe{
		Task: task, Kind: probe.Readiness, Handler: handler, Name: "tcp", Spec: probe.Spec{Period: period, FailureThreshold: 2},
	})
	if err == nil {
		f.addresses = append(f.addresses, address)
	}
	return err
}

// Run prints changes until ctx ends.
func (f *fleet) Run(ctx context.Context, w io.Writer) {
	known := make(map[int]results.Result)
	for number, u := range f.probes.Subscribe(ctx) {
		if u.Reason == results.Initial {
			continue // nothing is known yet
		}
		if known[number] == results.Success {
			f.ready--
		}
		if known[number] = u.Result; u.Result == results.Success {
			f.ready++
		}
		fmt.Fprintf(w, "%s: %s %s (%d of %d ready)\n", f.addresses[number], u.Result.Word(), u.Output, f.ready, len(f.addresses))
	}
}

// bind returns the handler of an endpoint.
func bind(tcp *tcpprobe.Handler, address string) (probe.Handler, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	return tcp.Bind(tcpprobe.Action{Host: host, Port: port})
}

func main() {
	period := flag.Duration("period", 10*time.Second, "time between the probes of an endpoint")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout, *period); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer, period time.Duration) error {
	g, err := group.New[int](group.Config{})
	if err != nil {
		return err
	}
	defer g.Shutdown(context.Background())
	f, tcp := &fleet{probes: g}, tcpprobe.New(tcpprobe.Config{})
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		handler, err := bind(tcp, lines.Text())
		if err != nil {
			return fmt.Errorf("line %d: %w", len(f.addresses)+1, err)
		}
		if err := f.Add(lines.Text(), handler, period); err != nil {
			return fmt.Errorf("line %d: %w", len(f.addresses)+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	f.Run(ctx, out)
	return nil
}
