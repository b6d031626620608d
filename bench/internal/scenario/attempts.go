package scenario

import (
	"context"
	"fmt"
	"slices"

	"github.com/daeace23/prober/bench/internal/attempt"
	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
)

// attemptColumns are the columns of all attempts, allocationColumns of attempts with a goal for allocations.
var (
	attemptColumns    = []Column{{"cpu-us", "CPU µs"}, {"p50-us", "p50 µs"}, {"p99-us", "p99 µs"}}
	allocationColumns = append(slices.Clone(attemptColumns), Column{"allocs", "allocations"}, Column{"goroutines", "goroutines made"})
)

// attempts returns the scenarios that compare prober's handlers with the kubelet's packages.
func attempts() []Scenario {
	all := []Scenario{
		{Name: "http", Title: "HTTP", Text: "\"prober, reuse\" keeps the connection of each probe (`connection: reuse`); the kubelet's are fresh. The limit: a socket, connect, write, read and close by blocking system calls."},
		{Name: "tcp", Title: "TCP", Text: "The limit: a socket, connect and close by blocking system calls."},
		{Name: "grpc", Title: "gRPC", Text: "The limit: the frames of one HTTP/2 call, by blocking system calls."},
		{Name: "https", Title: "HTTPS", Text: "The certificate has an ECDSA key. The limit: the handshake of crypto/tls, and a request of one write.",
			Why: "What keeps it from the goal: the handshake, 76 % of an attempt by a profile at c = 1. The keys of ML-KEM-768 take 28 %, the keys of X25519 23 %, the rest messages, the signature and system calls. " +
				"The dial takes 8 %, the exchange over HTTP/2 another 8 %. Resumed sessions, or no post-quantum keys, would differ from the kubelet's handshake."},
		{
			Name: "exec", Title: "Exec",
			Text: "The command is /bin/true, started for the kubelet by os/exec in place of its container runtime. \"CPU\" is the probing process alone, \"child CPU\" the command. The limit: pipe, fork, exec, read and wait by system calls.",
			Why: "What keeps it from the goal: the cost of a process start in Go. By the profile at c = 16, syscall.ForkExec takes 34 %: clone 25 %, and a pipe for the error of exec 9 %. " +
				"The runtime's monitor takes 18 %: it wakes up some thousand times a second. The two pipes of the output take 10 %, the end of the process (signal, waitid, kill, wait4) 14 %, thread switches 8 %. " +
				"Waiting by a pidfd and the poller costs the same at c = 16, and half as much again at c = 1. A C program with 16 threads takes half.",
		},
	}
	limits := map[string]float64{"http": 0.5, "tcp": 0.65, "grpc": 0.35, "https": 0.75, "exec": 0.5}
	allocations := map[string]float64{"http": 8, "grpc": 25}
	const ofContext = 4 // allocations of the context, which a worker avoids
	for i := range all {
		s := &all[i]
		name, cs := s.Name, []int{1, 16, 256}
		s.Columns = attemptColumns
		switch name {
		case "http", "grpc":
			s.Columns = allocationColumns
		case "exec":
			cs = cs[:2]
			s.Columns = append([]Column{{"child-cpu-us", "child CPU µs"}}, attemptColumns...)
		}
		s.Rounds, s.Seconds, s.Ratio, s.Peer, s.Limit = 4, 1, "cpu-us", attempt.Kubelet, attempt.Limit
		s.Run = func(ctx context.Context, e *Env) error { return e.attempts(ctx, name, cs) }
		s.Plots = []Plot{{Title: s.Title + ": CPU µs an attempt", Figure: "cpu-us"}}
		for _, c := range cs[1:] {
			s.Goals = append(s.Goals, Goal{
				Text:   fmt.Sprintf("CPU at c = %d ≤ %v × kubelet", c, limits[name]),
				Figure: "cpu-us", Subject: attempt.Prober, Over: attempt.Kubelet, Params: param("c", c), AtMost: limits[name],
			})
			if name == "http" {
				s.Goals = append(s.Goals, Goal{
					Text:   fmt.Sprintf("reuse: CPU at c = %d ≤ 0.3 × kubelet", c),
					Figure: "cpu-us", Subject: attempt.Reuse, Over: attempt.Kubelet, Params: param("c", c), AtMost: 0.3,
				})
			}
			if name == "http" || name == "grpc" {
				s.Goals = append(s.Goals, Goal{
					Text:   fmt.Sprintf("no goroutine at c = %d", c),
					Figure: "goroutines", Subject: attempt.Prober, Params: param("c", c), AtMost: 0.01,
				})
			}
			if most := allocations[name]; most > 0 {
				s.Goals = append(s.Goals, Goal{
					Text:   fmt.Sprintf("≤ %v + %d allocations at c = %d", most, ofContext, c),
					Figure: "allocs", Subject: attempt.Prober, Params: param("c", c), AtMost: most + ofContext,
				})
			}
		}
	}
	return all
}

func (e *Env) attempts(ctx context.Context, kind string, cs []int) error {
	server, err := e.target(ctx)
	if err != nil {
		return err
	}
	for _, c := range cs {
		e.Logf("%s: c = %d, %d rounds", kind, c, e.Rounds)
		var runs []record.Run
		request := attempt.Request{Kind: kind, C: c, Rounds: e.Rounds, Seconds: float64(e.Seconds), Ports: server.Ports}
		if err := child.Run(ctx, attempt.JobName, request, &runs); err != nil {
			return err
		}
		for _, r := range runs {
			r.Params = param("c", c)
			e.Emit(r)
		}
	}
	return nil
}
