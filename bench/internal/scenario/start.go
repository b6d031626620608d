package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
)

// Subjects of the scenario start.
const (
	proberProbe = "prober-probe http"
	proberHTTP  = "prober probe http"
	checkHTTP   = "check_http"
	shim        = "shim of a container"
	tini        = "tini"
)

// starts is the number of starts of each program in a round.
const starts = 40

// start measures small processes: one probe by a command, and the parent process of a container.
func start() Scenario {
	return Scenario{
		Name: "start", Title: "Small processes", Rounds: 3,
		Text: "A command that makes one HTTP probe, and the parent process of a container of pods/local. " +
			"CPU and time are of a process from start to end, the median of 40; the parent starts sleep and ends it. " +
			"Memory is measured while the command waits for the response, and while the container runs. " +
			"check_http and tini are from Debian's monitoring-plugins-basic and tini.",
		Columns: []Column{{"cpu-ms", "CPU ms"}, {"ms", "ms"}, {"anonymous-mb", "MB, anonymous"}, {"rss-mb", "MB, resident"}},
		Goals: []Goal{
			{Text: "command: CPU ≤ 2 × check_http's", Figure: "cpu-ms", Subject: proberProbe, Over: checkHTTP, AtMost: 2},
			{Text: "command: ≤ 15 MB", Figure: "rss-mb", Subject: proberProbe, AtMost: 15},
			{Text: "parent: CPU ≤ 5 ms", Figure: "cpu-ms", Subject: shim, AtMost: 5},
			{Text: "parent: ≤ 1.5 MB of its own", Figure: "anonymous-mb", Subject: shim, AtMost: 1.5},
		},
		Why: "prober-probe: a Go program that prints a word takes 0.9 ms, one that only links the built-in handlers 2.6. " +
			"Half of that is the initialization of k8s.io/api (the types of a probe's config) and of grpc-go, and the page faults of 21 MB: " +
			"k8s.io/apimachinery looks methods up by name, so the linker keeps the methods of all types.",
		Run: func(ctx context.Context, e *Env) error {
			for round := range e.Rounds {
				for _, subject := range []string{proberProbe, checkHTTP, proberHTTP, shim, tini} {
					e.Logf("%s, round %d", subject, round+1)
					figures, err := e.startRound(ctx, subject)
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					e.emit(subject, round+1, nil, figures, err)
				}
			}
			return nil
		},
	}
}

// startRound measures many starts of the program of a subject.
func (e *Env) startRound(ctx context.Context, subject string) (map[string]record.Number, error) {
	server, err := e.target(ctx)
	if err != nil {
		return nil, err
	}
	var run func(waiting func(pid int) error) (*os.ProcessState, error)
	switch subject {
	case shim:
		path, err := e.program(ctx, "prober")
		if err != nil {
			return nil, err
		}
		run = func(waiting func(int) error) (*os.ProcessState, error) { return runShim(ctx, path, waiting) }
	case tini:
		run = func(waiting func(int) error) (*os.ProcessState, error) { return runTini(ctx, waiting) }
	default:
		at, err := e.httpCommand(ctx, subject)
		if err != nil {
			return nil, err
		}
		run = func(waiting func(int) error) (*os.ProcessState, error) {
			return runCommand(ctx, at, server.HTTP, waiting)
		}
	}
	var cpu, wall []float64
	for range starts {
		begin := time.Now()
		state, err := run(nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject, err)
		}
		wall = append(wall, float64(time.Since(begin))/1e6)
		cpu = append(cpu, float64(state.UserTime()+state.SystemTime())/1e6)
	}
	var anonymous, resident int64
	_, err = run(func(pid int) (err error) {
		if anonymous, err = measure.Anonymous(pid); err == nil {
			resident, err = measure.Peak(pid)
		}
		return err
	})
	return map[string]record.Number{
		"cpu-ms": record.Number(measure.Summarize(cpu).Median), "ms": record.Number(measure.Summarize(wall).Median),
		"anonymous-mb": record.Number(float64(anonymous) / (1 << 20)), "rss-mb": record.Number(float64(resident) / (1 << 20)),
	}, err
}

// httpCommand returns the command line of a subject for a probe of a port, by the function that it returns.
func (e *Env) httpCommand(ctx context.Context, subject string) (func(port int) []string, error) {
	if subject == checkHTTP {
		path := "/usr/lib/nagios/plugins/check_http"
		if _, err := os.Stat(path); err != nil {
			return nil, errors.New("check_http is missing: apt-get install monitoring-plugins-basic")
		}
		return func(port int) []string {
			return []string{path, "-H", target.Address(0), "-p", fmt.Sprint(port), "-t", "30"}
		}, nil
	}
	words := []string{"prober-probe", "http"}
	if subject == proberHTTP {
		words = []string{"prober", "probe", "http"}
	}
	path, err := e.program(ctx, words[0])
	return func(port int) []string {
		return append(append([]string{path}, words[1:]...), fmt.Sprintf("http://%s:%d/", target.Address(0), port), "--timeout", "30s")
	}, err
}

// runCommand runs a command that probes a port. With waiting the server is one that sends nothing, waiting is
// called while the command waits for it, and the command is killed.
func runCommand(ctx context.Context, command func(port int) []string, port int, waiting func(pid int) error) (*os.ProcessState, error) {
	if waiting == nil {
		words := command(port)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		err := cmd.Run()
		return cmd.ProcessState, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(target.Address(0), "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	words := command(l.Addr().(*net.TCPAddr).Port)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	conn, err := l.Accept()
	if err == nil {
		defer conn.Close()
		_, err = bufio.NewReader(conn).ReadString('\n') // first line of the request
	}
	if err == nil {
		err = waiting(cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return cmd.ProcessState, err
}

// sleeper is the container of a parent.
var sleeper = []string{"/bin/sleep", "1000"}

// runShim runs a container under a shim, as pods/local/internal/process does.
func runShim(ctx context.Context, program string, waiting func(pid int) error) (_ *os.ProcessState, err error) {
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer controlR.Close()
	defer controlW.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reportR.Close()
	defer reportW.Close()
	cmd := exec.CommandContext(ctx, program, "__prober-container-shim")
	cmd.Env, cmd.ExtraFiles = []string{"GOMAXPROCS=1"}, []*os.File{controlR, reportW}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	controlR.Close()
	reportW.Close()
	launch, err := json.Marshal(map[string]any{"path": sleeper[0], "args": sleeper, "env": []string{}})
	if err != nil {
		return nil, err
	}
	_, err = controlW.Write(append(launch, '\n'))
	var started struct {
		PID   int
		Error string
	}
	if err == nil {
		err = json.NewDecoder(reportR).Decode(&started)
	}
	if err == nil && started.Error != "" {
		err = errors.New(started.Error)
	}
	if err == nil && waiting != nil {
		err = waiting(cmd.Process.Pid)
	}
	_, _ = controlW.WriteString("K")
	err = errors.Join(err, cmd.Wait())
	return cmd.ProcessState, err
}

// runTini runs a container under tini.
func runTini(ctx context.Context, waiting func(pid int) error) (*os.ProcessState, error) {
	path, err := exec.LookPath("tini")
	if err != nil {
		return nil, errors.New("tini is missing: apt-get install tini")
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"-s", "--"}, sleeper...)...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	if err = awaitChild(ctx, pid); err == nil && waiting != nil {
		err = waiting(pid)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // returns an error, because a signal ended the container
	return cmd.ProcessState, err
}

// awaitChild waits until a process has a child that runs the container.
func awaitChild(ctx context.Context, pid int) error {
	for ctx.Err() == nil {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return err
		}
		for _, child := range strings.Fields(string(children)) {
			if at, _ := os.Readlink(filepath.Join("/proc", child, "exe")); filepath.Base(at) == "sleep" || filepath.Base(at) == "coreutils" {
				return nil
			}
		}
	}
	return context.Cause(ctx)
}
