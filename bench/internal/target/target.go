// Package target has the servers that are probed. They run in a process of their own, on loopback,
// and are as quick as they can be: what is measured is the prober.
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

// Ports are those of the servers. Every server listens on all addresses of loopback.
type Ports struct {
	TCP      int // closes each connection
	HTTP     int // answers 200 with 2 bytes to any request, and closes
	HTTPKept int // the same answer to each request, and keeps the connection
	HTTPS    int // net/http with a certificate of ECDSA P-256; HTTP/1.1 and h2
	GRPC     int // the health service of grpc-go, SERVING
}

// Addresses is the number of addresses that [Address] returns.
const Addresses = 250 * 250

// Address returns one of the addresses of loopback: 127.0.0.1, 127.0.0.2, …
func Address(i int) string { return fmt.Sprintf("127.0.%d.%d", i/250, i%250+1) }

// Server is the process of the servers.
type Server struct {
	Ports
	process *child.Process
}

// request is what the parent asks of the servers.
type request struct {
	Watch   int           // targets whose requests are recorded from now on; 0 ends that
	Period  time.Duration // of their probes
	Seconds int           // for which they are recorded, at most
}

// Lags says how late requests arrived, by the schedule that the requests themselves show.
type Lags struct {
	Ticks, Lost   uint64
	P50, P99, Max record.Number // in milliseconds
}

// Job is the child.
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

// Watch begins to record when requests arrive at the HTTP server, at the first n addresses.
func (s *Server) Watch(n int, period time.Duration, seconds int) error {
	var ok bool
	return s.process.Ask(request{Watch: n, Period: period, Seconds: seconds}, &ok)
}

// Lags returns how late the requests since Watch were.
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
