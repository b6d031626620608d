// Package target has the servers that are probed. They run in their own process, on loopback, and are as fast
// as possible, because the probers are measured and not the servers.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
)

// Ports are the ports of the servers. Every server listens on all loopback addresses.
type Ports struct {
	TCP      int // closes each connection
	HTTP     int // answers 200 with 2 bytes to any request, and closes
	HTTPKept int // gives the same answer, and keeps the connection open
	HTTPS    int // net/http with an ECDSA P-256 certificate; HTTP/1.1 and h2
	GRPC     int // the health service of grpc-go, with the status SERVING
}

// Addresses is the number of addresses that [Address] returns.
const Addresses = 250 * 250

// Address returns one of the loopback addresses: 127.0.0.1, 127.0.0.2, …
func Address(i int) string { return fmt.Sprintf("127.0.%d.%d", i/250, i%250+1) }

// Server is the process of the servers.
type Server struct {
	Ports
	process *child.Process
}

// request is a request of the parent to the servers.
type request struct {
	Watch   int           // number of targets whose requests are recorded from now on; 0 ends the recording
	Period  time.Duration // period of their probes
	Seconds int           // longest time of the recording
}

// Lags has the lateness of requests, relative to the schedule that is derived from the requests.
type Lags struct {
	Ticks, Lost   uint64
	P50, P99, Max record.Number // in milliseconds
}

// Job is the job of the child that serves.
const Job = "target"

// Start starts the servers.
func Start(ctx context.Context) (*Server, error) {
	p, err := child.Start(ctx, Job)
	if err != nil {
		return nil, err
	}
	s := &Server{process: p}
	if err := p.Ask(request{}, &s.Ports); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return s, nil
}

// Close ends the servers.
func (s *Server) Close() error { return s.process.Close() }

// Watch starts to record the times of requests to the HTTP server, at the first n addresses.
func (s *Server) Watch(n int, period time.Duration, seconds int) error {
	var ok bool
	return s.process.Ask(request{Watch: n, Period: period, Seconds: seconds}, &ok)
}

// Lags returns the lateness of the requests since Watch.
func (s *Server) Lags() (l Lags, err error) {
	err = s.process.Ask(request{}, &l)
	return l, err
}

// Serve is the job of the child.
func Serve(_ context.Context, c *child.Conn) error {
	w := new(watch)
	ports, err := listen(w)
	if err != nil {
		return err
	}
	var r request
	if err := c.Next(&r); err != nil {
		return err
	}
	if err := c.Reply(ports); err != nil {
		return err
	}
	for {
		r = request{}
		if err := c.Next(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var answer any
		if r.Watch > 0 {
			w.begin(r)
			answer = true
		} else {
			answer = w.end()
		}
		if err := c.Reply(answer); err != nil {
			return err
		}
	}
}

func lagsOf(h *measure.Histogram) Lags {
	return Lags{
		Ticks: h.Count(), Lost: h.Lost(),
		P50: record.Number(h.Milliseconds(0.5)), P99: record.Number(h.Milliseconds(0.99)), Max: record.Number(h.Milliseconds(1)),
	}
}
