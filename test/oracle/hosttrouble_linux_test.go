package oracle

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	kubeletresults "k8s.io/kubernetes/pkg/kubelet/prober/results"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// agents are the sides that the tests stop or leave without descriptors, each in its own process. trouble
// says whether the side counts that as a Failure of the target.
var agents = map[string]struct {
	run     func(t *testing.T, pod *v1.Pod)
	trouble bool
}{
	"kubelet":      {runKubelet, true},
	"KubeletV1_36": {func(t *testing.T, pod *v1.Pod) { runOurs(t, pod, manager.KubeletV1_36) }, true},
	"default":      {func(t *testing.T, pod *v1.Pod) { runOurs(t, pod, 0) }, false},
}

const timeout = 2 * time.Second // the timeout of the probe

// runKubelet prints the kubelet's decided liveness results for pod. It does not return.
func runKubelet(t *testing.T, pod *v1.Pod) {
	liveness := kubeletresults.NewManager()
	m := prober.NewManager(statusSource{podStatus: statusOf(pod)}, liveness, kubeletresults.NewManager(),
		kubeletresults.NewManager(), commandRunner(nil), eventPrinter{})
	m.AddPod(t.Context(), pod)
	for u := range liveness.Updates() {
		fmt.Println("decided", u.Result)
	}
}

// runOurs prints prober's decided liveness results for pod. It does not return.
func runOurs(t *testing.T, pod *v1.Pod, compat manager.Compat) {
	registry := new(handlers.Registry)
	if err := builtin.Register(registry, builtin.Config{Runner: execRunner(nil), Compat: compat}); err != nil {
		panic(err)
	}
	m, err := manager.New(manager.Config{
		Status: podStatuses(statusOf(pod)), Handlers: registry, Recorder: eventPrinter{},
		Logger: slog.New(slog.DiscardHandler), Compat: compat,
	})
	if err != nil {
		panic(err)
	}
	if err := m.AddPod(t.Context(), pod); err != nil {
		panic(err)
	}
	for u := range m.Results(probe.Liveness).Updates() {
		fmt.Println("decided", u.Result)
	}
}

func statusOf(pod *v1.Pod) func(types.UID) (v1.PodStatus, bool) {
	return func(types.UID) (v1.PodStatus, bool) { return pod.Status, true }
}

// eventPrinter is the event recorder of both sides. It prints events.
type eventPrinter struct{}

var _ record.EventRecorderLogger = eventPrinter{}

func (eventPrinter) Event(_ runtime.Object, _, reason, message string) {
	fmt.Println("event", reason, strings.ReplaceAll(message, "\n", " "))
}

func (p eventPrinter) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	p.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (p eventPrinter) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	p.Eventf(object, eventType, reason, format, args...)
}

func (p eventPrinter) WithLogger(klog.Logger) record.EventRecorderLogger { return p }

// TestAgentStoppedDuringAttempt stops an agent for longer than the timeout while a healthy target answers.
// The answer is a redirect, which the agent follows after the deadline. So it notices the timeout before the
// attempt ends.
func TestAgentStoppedDuringAttempt(t *testing.T) {
	t.Parallel()
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := stallOnce(t, name, true); got != agent.trouble {
				t.Errorf("decided Failure: %v, want %v", got, agent.trouble)
			}
		})
	}
}

// TestAgentStoppedBeforeAnswer stops an agent until the whole answer has arrived. The kubelet then notices
// either the timeout or the answer first, at random, and so does ours with KubeletV1_36. The default must
// not count this as a Failure.
func TestAgentStoppedBeforeAnswer(t *testing.T) {
	t.Parallel()
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := stallOnce(t, name, false)
			t.Logf("%s decided Failure: %v", name, failed)
			if failed && !agent.trouble {
				t.Error("the default counted its own stop as a Failure of the target")
			}
		})
	}
}

// stallOnce stops an agent during its first attempt and reports whether it decides Failure.
func stallOnce(t *testing.T, agent string, redirect bool) (failed bool) {
	t.Helper()
	target := &slowTarget{redirect: redirect, begun: make(chan struct{}, 10), stopped: make(chan struct{}), answered: make(chan struct{}, 10)}
	server := httptest.NewServer(target)
	defer server.Close()
	p := startAgent(t, agent, server.URL, "")
	select {
	case <-target.begun:
	case <-p.ended:
		t.Fatal("the agent has ended")
	}
	p.stop(t)
	close(target.stopped)
	<-target.answered
	time.Sleep(2 * timeout)
	if err := syscall.Kill(p.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for attempts := 0; attempts < probe.MaxAttempts; { // until the first tick is over
		select {
		case <-p.ended:
			t.Fatal("the agent has ended")
		case line := <-p.lines:
			if line == "decided Failure" {
				return true
			}
		case <-target.begun:
			attempts++
		}
	}
	return false
}

// slowTarget answers well before the timeout of a probe, but to the first request not before the agent is
// stopped.
type slowTarget struct {
	redirect        bool
	begun, answered chan struct{}
	stopped         chan struct{} // closed when the agent has stopped
}

func (s *slowTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/end" {
		time.Sleep(timeout / 8)
		return
	}
	s.begun <- struct{}{}
	<-s.stopped
	time.Sleep(timeout / 8)
	if s.redirect {
		http.Redirect(w, r, "/end", http.StatusFound)
	}
	s.answered <- struct{}{}
}

// TestAgentWithoutDescriptors runs an agent without free file descriptors and with a healthy target.
func TestAgentWithoutDescriptors(t *testing.T) {
	t.Parallel()
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer target.Close()
			p := startAgent(t, name, target.URL, "starved")
			failed := false
			for errored := 0; !failed && errored < 2; { // ticks with an error
				select {
				case <-p.ended:
					t.Fatal("the agent has ended")
				case line := <-p.lines:
					failed = line == "decided Failure"
					if strings.HasPrefix(line, "event") && strings.Contains(line, "errored") {
						errored++
					}
				}
			}
			if failed != agent.trouble {
				t.Errorf("decided Failure: %v, want %v", failed, agent.trouble)
			}
		})
	}
}

// agentProcess is another process of this test program, which runs one side.
type agentProcess struct {
	*exec.Cmd
	lines chan string   // lines that it prints; never closed
	ended chan struct{} // closed at the end of its output
}

const (
	envAgent  = "ORACLE_AGENT" // key of agents
	envTarget = "ORACLE_TARGET"
	envMode   = "ORACLE_MODE" // "starved": without descriptors
)

func startAgent(t *testing.T, agent, target, mode string) *agentProcess {
	t.Helper()
	p := &agentProcess{exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAgentProcess$"), make(chan string, 1000), make(chan struct{})}
	p.Env = append(os.Environ(), envAgent+"="+agent, envTarget+"="+target, envMode+"="+mode)
	p.Stderr = os.Stderr
	if _, err := p.StdinPipe(); err != nil { // the agent ends when the pipe is closed
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		<-p.ended
		_ = p.Wait() // it was killed with the context
	})
	return p
}

// stop suspends the agent with SIGSTOP, and waits until it is suspended.
func (p *agentProcess) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
}

// TestAgentProcess is not a test: other tests start it in a process as the agent. It prints decided results
// and events until its standard input ends.
func TestAgentProcess(t *testing.T) {
	agent, ok := agents[os.Getenv(envAgent)]
	if !ok {
		return // this is not the process that another test has started
	}
	target := os.Getenv(envTarget)
	if os.Getenv(envMode) == "starved" {
		starve(t, target)
	}
	go agent.run(t, probedPod(t, target))
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // do not wait for either side
}

// probedPod returns a running pod with a liveness probe of target.
func probedPod(t *testing.T, target string) *v1.Pod {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", LivenessProbe: &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt(port), Scheme: v1.URISchemeHTTP}},
			PeriodSeconds: 1, TimeoutSeconds: int32(timeout / time.Second), SuccessThreshold: 1, FailureThreshold: 1,
		}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: u.Hostname(), ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", ContainerID: "test://c", Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}},
	}
}

// starve checks that target is healthy, and then prevents this process from opening more descriptors.
func starve(t *testing.T, target string) {
	t.Helper()
	res, err := http.Get(target)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 3 // standard input, output and error
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}
