//go:build linux

// Command soak runs bin/prober for a long time with many probes, while manifests, plugins, targets and
// clients change and fail. Then it kills agents again and again. `make soak` builds and runs it; it
// needs Linux.
//
// The first phase is [runLoad], in load.go: an agent whose pods have ten probes each. Its targets run in
// a child process that logs every connection: targets.go, and the fault proxy in proxy.go. layout.go
// defines the pods and probes, churn.go changes them, and readers.go reads the API.
// ledger.go stores the connections that the targets log and the ticks that the agent reports. match.go
// compares them for each probe: each attempt is one connection, each tick has the result of its
// target, and each period has one tick. check.go lists the probes whose ticks the stream has omitted,
// and compares the agent's metrics. watch.go measures the agent. odd.go adds pods with local processes
// and with targets that always fail.
//
// The second phase is [runKills], in kill.go. The third, [runPipe], closes the pipe that an agent logs to. The
// fourth, [runDay], in day.go, has the ticks of a day with 1,000 targets.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	duration       time.Duration
	probes, kills  int
	day            int    // ticks
	prober, folder string // bin/prober and bin/plugins
	log, profile   string
	temp           string // folder for all files of a run; not a flag
}

// asTargets is the argument that makes this program serve the targets.
const asTargets = "__targets"

// patience is the timeout of every wait.
const patience = 2 * time.Minute

func main() {
	if len(os.Args) > 1 && os.Args[1] == asTargets {
		signal.Ignore(syscall.SIGINT) // Ctrl-C reaches this process too; its parent ends it
		fmt.Fprintln(os.Stderr, "targets:", serveTargets())
		os.Exit(1)
	}
	var o options
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long the agent is under load; 0 skips this phase")
	flag.IntVar(&o.probes, "probes", 20000, "approximate number of probes of the agent")
	flag.IntVar(&o.kills, "kills", 100, "how often an agent is killed; 0 skips this phase")
	flag.IntVar(&o.day, "day", 0, "how many ticks an agent with 1,000 targets makes while its memory is watched: 8640000 are a day at 10 s; 0 skips this phase")
	flag.StringVar(&o.prober, "prober", "bin/prober", "the agent")
	flag.StringVar(&o.folder, "plugins", "bin/plugins", "folder of redis.wasm and httpjson.wasm")
	flag.StringVar(&o.log, "log", "", "file for the agent's log, as far as it is read")
	flag.StringVar(&o.profile, "profile", "", "file for a CPU profile of the agent, of 20 s in the middle of the load phase")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ok, err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: error:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run runs the phases, and prints the report of each. ok reports whether all checks passed. When ctx
// ends, run still reports the current phase, and skips the phases after it.
func (o *options) run(ctx context.Context) (ok bool, err error) {
	if o.probes < 1 || o.probes > 500_000 || o.duration < 0 || o.kills < 0 || o.day < 0 {
		return false, fmt.Errorf("-probes must be from 1 to 500000, -duration, -kills and -day must not be negative")
	}
	if _, err := os.Stat(o.prober); err != nil {
		return false, fmt.Errorf("%w; make build", err)
	}
	if o.temp, err = os.MkdirTemp("", "prober-soak-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(o.temp)
	ok = true
	for _, phase := range []struct {
		title string
		skip  bool
		run   func(context.Context, *options, *report) error
	}{
		{fmt.Sprintf("%d probes for %v", o.probes, o.duration), o.duration == 0, runLoad},
		{fmt.Sprintf("kill -9, %d times", o.kills), o.kills == 0, runKills},
		{"the reader of the log ends", o.kills == 0, runPipe},
		{fmt.Sprintf("%d targets for %d ticks", dayTargets, o.day), o.day == 0, runDay},
	} {
		if phase.skip || ctx.Err() != nil {
			continue
		}
		r := &report{begin: time.Now()}
		if err := phase.run(ctx, o, r); err != nil && ctx.Err() == nil {
			r.fault("%v", err)
		}
		if ctx.Err() != nil {
			r.add("interrupted", "after %v", time.Since(r.begin).Round(time.Second))
		}
		r.print(os.Stdout, phase.title)
		ok = ok && r.passed()
	}
	return ok, nil
}

// report holds the figures and faults that a phase prints at its end. Its methods are safe for
// concurrent use.
type report struct {
	begin time.Time

	mu      sync.Mutex
	lines   []string
	faults  []string
	omitted int            // faults beyond maxFaults
	counts  map[string]int // by kind of fault
	note    string         // appended to the verdict
}

const (
	maxFaults = 25
	maxFault  = 300 // bytes
)

func (r *report) add(name, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%-24s %s", name, fmt.Sprintf(format, args...)))
}

// fault records a fault of the agent, and prints it at once.
func (r *report) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faultLocked(fmt.Sprintf(format, args...))
}

func (r *report) faultLocked(text string) {
	if len(text) > maxFault {
		text = strings.ToValidUTF8(text[:maxFault], "") + "…"
	}
	fmt.Printf("%8v  FAULT: %s\n", time.Since(r.begin).Round(time.Second), text)
	if len(r.faults) >= maxFaults {
		r.omitted++
		return
	}
	r.faults = append(r.faults, text)
}

// count records n faults of one kind, unless n or more are recorded already. The report has the largest
// number of each kind.
func (r *report) count(n int, what, details string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n <= r.counts[what] {
		return
	}
	if r.counts == nil {
		r.counts = make(map[string]int)
	}
	before := fmt.Sprintf("%d %s; ", r.counts[what], what)
	r.faults = slices.DeleteFunc(r.faults, func(f string) bool { return strings.HasPrefix(f, before) })
	r.counts[what] = n
	r.faultLocked(fmt.Sprintf("%d %s; %s", n, what, details))
}

func (r *report) passed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.faults) == 0
}

func (r *report) print(w io.Writer, title string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(w, "\n%s\n  %s\n", title, strings.Join(r.lines, "\n  "))
	for _, f := range r.faults {
		fmt.Fprintf(w, "  FAULT: %s\n", f)
	}
	verdict := "passed"
	if n := len(r.faults) + r.omitted; n > 0 {
		verdict = fmt.Sprintf("FAILED, %d faults%s", n, r.note)
	}
	fmt.Fprintf(w, "  verdict: %s\n\n", verdict)
}

// children are child processes of this program's own binary. They end when their standard input is
// closed.
type children struct{ stops []func() }

// start starts this program with one argument, and returns its output. The child is started by the
// command wrapper, such as nice, if there is one.
func (c *children) start(ctx context.Context, argument string, wrapper ...string) (*bufio.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append(wrapper, self, argument)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return nil } // closing its standard input ends it
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.stops = append(c.stops, func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return bufio.NewReaderSize(stdout, 1<<16), nil
}

// end stops all children and waits for them.
func (c *children) end() {
	for _, stop := range c.stops {
		stop()
	}
}

// putFile replaces a file atomically. The agent ignores the temporary file, whose name begins with a dot.
func putFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// pluginFolder makes a folder with the example plugins names, and the process plugin "tester".
func (o *options) pluginFolder(ctx context.Context, dir string, names ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		module, err := os.ReadFile(filepath.Join(o.folder, name+".wasm"))
		if err != nil {
			return err
		}
		if err := putFile(filepath.Join(dir, name+".wasm"), module); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "prober-plugin-tester")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./handlers/process/testdata/plugin")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", build, err, out)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return err
	}
	return putFile(path+".yaml", []byte("apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n"))
}

// every calls do at once and then in each period, until ctx ends.
func every(ctx context.Context, period time.Duration, do func(i int)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		do(i)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
