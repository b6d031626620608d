package kubelettests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/exec"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/test/oracle"
	kubeletprobe "github.com/daeace23/prober/test/oracle/probe"
	kubeletexec "github.com/daeace23/prober/test/oracle/probe/exec"
	kubeletgrpc "github.com/daeace23/prober/test/oracle/probe/grpc"
	kubelethttp "github.com/daeace23/prober/test/oracle/probe/http"
	kubelettcp "github.com/daeace23/prober/test/oracle/probe/tcp"
)

// request is the input of one attempt of a handler.
type request struct {
	handler v1.ProbeHandler
	ports   []v1.ContainerPort
	podIP   string
	timeout time.Duration
	follow  bool         // follow redirects to other hosts
	http2   bool         // HTTP/2 without TLS, with the feature gate of v1.37
	fixes   probe.Compat // switches of the profile that are not set for ours
	// Only for exec:
	output string
	err    error
}

// answer is the result of an attempt: success, warning, failure, unknown, or error.
type answer struct {
	result, output string
	err            error
}

// handlerSides are the kubelet's handlers and ours.
var handlerSides = map[string]func(request) answer{"kubelet": askKubelet, "ours": askOurs}

// eachHandler runs f with the handlers of both sides.
func eachHandler(t *testing.T, name string, f func(t *testing.T, ask func(request) answer)) {
	t.Helper()
	for side, ask := range handlerSides {
		t.Run(name+"/"+side, func(t *testing.T) { f(t, ask) })
	}
}

func (r *request) container() *v1.Container { return &v1.Container{Name: "web", Ports: r.ports} }

// askKubelet calls the kubelet's handler for r, as the kubelet's prober does.
func askKubelet(r request) answer {
	result, output, err := kubeletprobe.Unknown, "", error(nil)
	switch h := r.handler; {
	case h.Exec != nil:
		result, output, err = kubeletexec.New().Probe(&command{output: r.output, err: r.err})
	case h.HTTPGet != nil:
		req, bad := kubelethttp.NewRequestForHTTPGetAction(h.HTTPGet, r.container(), r.podIP, "probe")
		if bad != nil {
			return answer{err: bad}
		}
		if r.http2 {
			result, output, err = kubelethttp.New(r.follow).ProbeH2C(req, r.timeout)
		} else {
			result, output, err = kubelethttp.New(r.follow).Probe(req, r.timeout)
		}
	case h.TCPSocket != nil:
		port, bad := kubeletprobe.ResolveContainerPort(h.TCPSocket.Port, r.container())
		if bad != nil {
			return answer{err: bad}
		}
		host := h.TCPSocket.Host
		if host == "" {
			host = r.podIP
		}
		result, output, err = kubelettcp.New().Probe(host, port, r.timeout)
	default:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		result, output, err = kubeletgrpc.New().Probe(r.podIP, service, int(h.GRPC.Port), r.timeout, kubeletgrpc.ProbeOptions{})
	}
	return answer{string(result), output, err}
}

// command is a command of the kubelet's exec handler that has already run.
type command struct {
	exec.Cmd
	output string
	err    error
	stdout io.Writer
}

func (c *command) SetStdout(w io.Writer) { c.stdout = w }
func (c *command) SetStderr(io.Writer)   {}
func (c *command) Wait() error           { return nil }

func (c *command) Start() error {
	_, _ = c.stdout.Write([]byte(c.output)) // the writer truncates it
	return c.err
}

func askOurs(r request) answer {
	name, action := "grpc", any(r.handler.GRPC)
	switch h := r.handler; {
	case h.Exec != nil:
		name, action = "exec", h.Exec
	case h.HTTPGet != nil:
		name, action = "http", h.HTTPGet
	case h.TCPSocket != nil:
		name, action = "tcp", h.TCPSocket
	}
	config, err := json.Marshal(action)
	if err != nil {
		return answer{err: err}
	}
	if r.http2 { // this version of v1 does not have the field
		config = append(config[:len(config)-1], `,"protocol":"HTTP2"}`...)
		r.fixes |= probe.CompatIgnoreProtocol
	}
	registry := new(handlers.Registry)
	if err := builtin.Register(registry, builtin.Config{
		Runner: ran(r), Compat: oracle.Profile() &^ r.fixes, FollowNonLocalRedirects: r.follow,
	}); err != nil {
		return answer{err: err}
	}
	h, err := registry.Prepare(name, config, probe.Target{})
	if err != nil {
		return answer{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	c := &probe.Container{Name: "web"}
	for _, p := range r.ports {
		c.Ports = append(c.Ports, probe.Port{Name: p.Name, Number: int(p.ContainerPort), Protocol: string(p.Protocol)})
	}
	outcome, err := worker.Attempt(ctx, h, probe.Request{
		Spec: probe.Spec{Timeout: r.timeout}, PodIP: r.podIP, Target: probe.Target{Host: r.podIP},
		Pod: new(probe.Pod), Container: c, ContainerID: first,
	})
	return answer{outcome.Result.String(), outcome.Output, err}
}

// ran returns a function that returns the result of a command.
type ran request

func (r ran) RunInContainer(context.Context, string, []string, time.Duration) ([]byte, error) {
	return []byte(r.output), r.err
}

// want checks the answer. The output must contain the text, or be equal to it after "=".
func (a answer) want(t *testing.T, result, output string) {
	t.Helper()
	if a.err != nil || a.result != result {
		t.Errorf("got %s %q, error %v; want %s", a.result, a.output, a.err, result)
	}
	if text, exact := strings.CutPrefix(output, "="); exact && a.output != text || !strings.Contains(a.output, text) {
		t.Errorf("output %q, want %q", a.output, output)
	}
}

func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		panic(fmt.Sprintf("not a URL: %v", err))
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		panic(fmt.Sprintf("no port: %v", err))
	}
	return port
}
