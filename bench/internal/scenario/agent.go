package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/bench/internal/target"
)

// agent is a process of `prober run`.
type agent struct {
	cmd *exec.Cmd
	dir string
	url string
}

// startAgent starts an agent with pods and further arguments, and waits until it is ready. If cache is set,
// it is the folder of compiled plugins.
func (e *Env) startAgent(ctx context.Context, pods *v1.PodList, cache string, args ...string) (_ *agent, err error) {
	path, err := e.program(ctx, "prober")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prober-agent")
	if err != nil {
		return nil, err
	}
	a := &agent{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	manifest, err := json.Marshal(pods)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "pods.json"), manifest, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	address := filepath.Join(dir, "address")
	a.cmd = exec.CommandContext(ctx, path, append([]string{
		"run", "-f", filepath.Join(dir, "pods.json"), "--listen", "127.0.0.1:0", "--addr-file", address, "--socket", filepath.Join(dir, "socket"),
	}, args...)...)
	if cache != "" {
		a.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	}
	a.cmd.Stderr = log
	a.cmd.Cancel = func() error { return a.cmd.Process.Signal(syscall.SIGTERM) }
	a.cmd.WaitDelay = 10 * time.Second
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	return a, a.await(ctx, address)
}

// patience is how long an agent may take to become ready.
const patience = 2 * time.Minute

// await waits until the agent is ready.
func (a *agent) await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if text, err := os.ReadFile(address); err == nil && len(text) > 0 {
			a.url = "http://" + string(text)
			if a.ready(ctx) == nil {
				return nil
			}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			log, _ := os.ReadFile(filepath.Join(a.dir, "log"))
			return fmt.Errorf("prober run is not ready: %w\n%s", err, log[:min(len(log), 2000)])
		}
	}
}

func (a *agent) ready(ctx context.Context) error {
	return a.get(ctx, "/readyz", func(body *bufio.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
}

// get requests a path of the agent.
func (a *agent) get(ctx context.Context, path string, read func(*bufio.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, answer.StatusCode)
	}
	return read(bufio.NewReader(answer.Body))
}

// close ends the agent with SIGTERM.
func (a *agent) close() error {
	defer os.RemoveAll(a.dir)
	if a.cmd == nil || a.cmd.Process == nil {
		return nil
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	return a.cmd.Wait()
}

// externalPods returns pods with one container each, which have probes of the HTTP server: a liveness probe
// and then a readiness probe.
func externalPods(server *target.Server, n, probesEach, period int) *v1.PodList {
	list := &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for i := range n {
		pod := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		pod.Name = fmt.Sprintf("web-%05d", i)
		c := v1.Container{Name: "app"}
		c.LivenessProbe = &v1.Probe{PeriodSeconds: int32(period), TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
			Host: target.Address(i), Port: intstr.FromInt32(int32(server.HTTP)), Path: "/healthz",
		}}}
		if probesEach > 1 {
			c.ReadinessProbe = c.LivenessProbe.DeepCopy()
		}
		pod.Spec.Containers = []v1.Container{c}
		list.Items = append(list.Items, pod)
	}
	return list
}
