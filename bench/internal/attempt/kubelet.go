package attempt

import (
	"fmt"
	"io"
	"os/exec"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kprobe "k8s.io/kubernetes/pkg/probe"
	kexec "k8s.io/kubernetes/pkg/probe/exec"
	kgrpc "k8s.io/kubernetes/pkg/probe/grpc"
	khttp "k8s.io/kubernetes/pkg/probe/http"
	ktcp "k8s.io/kubernetes/pkg/probe/tcp"
	utilexec "k8s.io/utils/exec"
)

// timeout is so long that no attempt times out even when all processors are busy.
const timeout = 10 * time.Second

// kubelet makes attempts as the kubelet's prober does.
func kubelet(kind string, port int) (attempt, error) {
	switch kind {
	case "tcp":
		p := ktcp.New()
		return func(_, i int) error { return succeeded(p.Probe(address(i), port, timeout)) }, nil
	case "grpc":
		p := kgrpc.New()
		return func(_, i int) error { return succeeded(p.Probe(address(i), "", port, timeout)) }, nil
	case "exec":
		p := kexec.New()
		return func(_, _ int) error { return succeeded(p.Probe(trueCommand{})) }, nil
	case "http", "https":
		return kubeletHTTP(kind, port), nil
	default:
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
}

func kubeletHTTP(kind string, port int) attempt {
	action := &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(int32(port)), Scheme: v1.URISchemeHTTP}
	if kind == "https" {
		action.Scheme = v1.URISchemeHTTPS
	}
	p, container := khttp.New(false), &v1.Container{Name: "app"}
	return func(_, i int) error {
		request, err := khttp.NewRequestForHTTPGetAction(action, container, address(i), "probe")
		if err != nil {
			return err
		}
		return succeeded(p.Probe(request, timeout))
	}
}

func succeeded(r kprobe.Result, output string, err error) error {
	if err != nil || r != kprobe.Success {
		return fmt.Errorf("kubelet: result %s, output %q, error %v", r, output, err)
	}
	return nil
}

// trueCommand replaces the container runtime: os/exec runs the command on this host.
type trueCommand struct{ utilexec.Cmd }

const truePath = "/bin/true"

func (trueCommand) SetStdout(io.Writer) {}
func (trueCommand) SetStderr(io.Writer) {}
func (trueCommand) Wait() error         { return nil }
func (trueCommand) Start() error {
	_, err := exec.Command(truePath).CombinedOutput()
	return err
}
