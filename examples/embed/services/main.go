// Command services keeps services alive, without Kubernetes: it probes each over HTTP, and restarts
// one whose startup or liveness probe fails. Its demo is a server in this process that hangs three
// seconds after each start.
//
//	go run ./services
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/probe"
)

// service is a service that the agent keeps alive.
type service struct {
	name    string
	host    string
	port    int
	restart func() error // starts it, or starts it again

	task *worker.Task
	runs int // owned by the goroutine of agent.Run
}

// agent probes services, and restarts those that fail.
type agent struct {
	probes   *group.Group[string] // by name of service
	http     *httpprobe.Handler
	services map[string]*service // read-only once Run is called
	changed  func(results.Update)
}

func newAgent(changed func(results.Update)) (*agent, error) {
	g, err := group.New[string](group.Config{})
	return &agent{g, httpprobe.New(httpprobe.Config{}), make(map[string]*service), changed}, err
}

// Add starts a service and its probes. spec is the spec of the liveness and readiness probes. The startup
// probe allows 30 periods.
func (a *agent) Add(s *service, spec probe.Spec) error {
	a.services[s.name] = s
	s.task = &worker.Task{Subject: results.Subject{Pod: s.name, Container: "server"}}
	if err := a.start(s); err != nil {
		return err
	}
	patient := spec
	patient.FailureThreshold = 30
	for kind, path := range map[probe.Kind]string{probe.Startup: "/live", probe.Liveness: "/live", probe.Readiness: "/ready"} {
		handler, err := a.http.Bind(httpprobe.Action{Host: s.host, Port: s.port, Path: path})
		if err != nil {
			return err
		}
		p := group.Probe{Task: s.task, Kind: kind, Handler: handler, Name: "http", Spec: spec}
		if kind == probe.Startup {
			p.Spec = patient
		}
		if err := a.probes.Add(s.name, p); err != nil {
			return err
		}
	}
	return nil
}

// start starts a new run of a service. Its new ID ends the hold of the probes that have failed. If
// the restart fails, the probes of the new run will fail too, and it is tried again.
func (a *agent) start(s *service) error {
	err := s.restart()
	s.runs++
	s.task.SetState(worker.Starting(fmt.Sprintf("%s/%d", s.name, s.runs), time.Now()))
	return err
}

// Run follows the results until ctx ends, then stops the probes. While it restarts a service, the
// probes continue, and it reads their newest results afterwards.
func (a *agent) Run(ctx context.Context) error {
	for name, u := range a.probes.Subscribe(ctx) {
		s := a.services[name]
		if u.Removed || u.ContainerID != s.task.State().ContainerID {
			continue // of an earlier run
		}
		switch {
		case u.Kind == probe.Startup && u.Result == results.Success:
			s.task.SetStarted(u.ContainerID) // the other two probes begin
		case u.Kind != probe.Readiness && u.Result == results.Failure:
			if err := a.start(s); err != nil {
				fmt.Fprintf(os.Stderr, "restart %s: %v\n", s.name, err)
			}
		}
		a.changed(u)
	}
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return a.probes.Shutdown(done)
}

// demo is a server that hangs after some time, until it is restarted.
type demo struct{ hangs atomic.Int64 }

func (d *demo) restart() error {
	d.hangs.Store(time.Now().Add(3 * time.Second).UnixNano())
	return nil
}

func (d *demo) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if time.Now().UnixNano() > d.hangs.Load() {
		<-r.Context().Done()
	}
}

func run(ctx context.Context) error {
	a, err := newAgent(func(u results.Update) { fmt.Println(u.ContainerID, u.Kind, u.Result.Word(), u.Reason, u.Output) })
	if err != nil {
		return err
	}
	var d demo
	server := httptest.NewServer(&d)
	defer server.Close()
	var port int
	if _, err := fmt.Sscanf(server.URL, "http://127.0.0.1:%d", &port); err != nil {
		return err
	}
	s := &service{name: "checkout", host: "127.0.0.1", port: port, restart: d.restart}
	if err := a.Add(s, probe.Spec{Period: 500 * time.Millisecond, Timeout: 200 * time.Millisecond}); err != nil {
		return err
	}
	return a.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}
