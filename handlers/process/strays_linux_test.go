package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

// straysOf makes a plugin start processes that leave its group. It returns channels that are closed when
// the processes end.
func straysOf(t *testing.T, h probe.Preparer) (ends []<-chan struct{}) {
	t.Helper()
	got, err := attempt(t, bind(t, h, "strays"), patience)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.FieldsSeq(got.Output) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, watchEnd(t, pid))
	}
	if len(ends) != 4 {
		t.Fatalf("got %q", got.Output)
	}
	return ends
}

// TestPluginLeavesNoProcess checks that all processes that a plugin has started end with it, including
// processes outside of its group.
func TestPluginLeavesNoProcess(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, h *process.Handler, s *replace.Handler, pid int){
		"closed": func(t *testing.T, _ *process.Handler, s *replace.Handler, _ int) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
		"killed": func(_ *testing.T, _ *process.Handler, _ *replace.Handler, pid int) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		},
		"crashed": func(t *testing.T, h *process.Handler, _ *replace.Handler, _ int) {
			if _, err := attempt(t, bind(t, h, "die"), patience); err == nil {
				t.Error("it has not crashed")
			}
		},
		"replaced": func(t *testing.T, _ *process.Handler, s *replace.Handler, _ int) {
			next, err := process.Load(t.Context(), unhurried(process.Config{}), found())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Replace(t.Context(), next); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := process.Load(t.Context(), unhurried(process.Config{}), found())
			if err != nil {
				t.Fatal(err)
			}
			s := replace.New(replace.Config{Name: "tester"})
			if err := s.Replace(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			other := load(t, process.Config{})
			pid, others := pidOf(t, bind(t, s, "pid")), pidOf(t, bind(t, other, "pid"))
			ends := append(straysOf(t, s), watchEnd(t, pid))
			end(t, h, s, pid)
			for i, ended := range ends {
				awaitEnd(t, ended, "process "+strconv.Itoa(i))
			}
			if again := pidOf(t, bind(t, other, "pid")); again != others {
				t.Error("another plugin was ended with it")
			}
		})
	}
}

func TestStartThatLeavesHeldOutputFails(t *testing.T) {
	_, err := process.Load(t.Context(), unhurried(process.Config{Env: []string{"START=held"}}), found())
	if want := `plugin "tester": the process ended when it started: exit status 0`; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

func TestStartOfNoProgramFails(t *testing.T) {
	f := found()
	f.Module, f.Digest = []byte("not a program"), ""
	_, err := process.Load(t.Context(), unhurried(process.Config{}), f)
	if want := `plugin "tester": ` + f.Path + " cannot be started: it is neither a program for this system nor a script, which begins with #!: exec format error"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// strayScript starts a process outside its group, writes its process ID into a file, and continues
// as its argument says.
const strayScript = `#!/bin/sh
case "$1" in
held) setsid sh -c 'echo $$ > "$0"; exec sleep 1000' "$2" & ;;
*) setsid sh -c 'echo $$ > "$0"; exec sleep 1000' "$2" <&- >&- 2>&- & ;;
esac
until test -s "$2"; do sleep 0.01; done
case "$1" in
hang)
	echo ready > "$3"
	exec sleep 1000
	;;
esac
`

// expiring is a context whose deadline passes when done is closed.
type expiring struct {
	context.Context
	done chan struct{}
}

func (c *expiring) Done() <-chan struct{}       { return c.done }
func (c *expiring) Deadline() (time.Time, bool) { return time.Now(), true }

func (c *expiring) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// expire makes an attempt whose deadline passes when a text is written to fifo. It returns the text.
func expire(t *testing.T, h probe.Handler, fifo string) (text string, out probe.Outcome, err error) {
	t.Helper()
	ctx := &expiring{t.Context(), make(chan struct{})}
	var data []byte
	var reading error
	go func() {
		defer close(ctx.done)
		data, reading = os.ReadFile(fifo)
	}()
	out, err = h.Probe(ctx, probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: 500 * time.Millisecond}})
	if <-ctx.done; reading != nil {
		t.Fatal(reading)
	}
	return strings.TrimSpace(string(data)), out, err
}

// newFIFO returns the path of a new FIFO.
func newFIFO(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCheckLeavesNoProcess checks that all processes that a run has started end at its deadline. If the run
// ended in time, processes that hold its output open end soon, and others when the check is closed.
func TestCheckLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte(strayScript), 0o755); err != nil {
		t.Fatal(err)
	}
	for mode, atOnce := range map[string]bool{"hang": true, "held": true, "hidden": false} {
		t.Run(mode, func(t *testing.T) {
			file, fifo := filepath.Join(t.TempDir(), "pid"), newFIFO(t)
			c, err := process.LoadCheck(process.Config{}, checkOf(t, `[check_it, "{{config.mode}}", "`+file+`", "`+fifo+`"]`, dir))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var out probe.Outcome
			if h := prepareCheck(t, c, `{"mode":"`+mode+`"}`); mode == "hang" {
				_, out, err = expire(t, h, fifo)
			} else {
				out, err = attempt(t, h, patience)
			}
			if err != nil {
				t.Fatalf("got %v, %v", out, err)
			}
			ended := watchEnd(t, numberIn(t, file))
			if !atOnce {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			awaitEnd(t, ended, "what the check has left behind")
		})
	}
}

// TestCheckEndsProcessesOfOneRun checks that the end of a run does not end processes of other runs.
func TestCheckEndsProcessesOfOneRun(t *testing.T) {
	dir := checkFolder(t)
	c := loadCheck(t, `[check_it, hang, "{{config.file}}"]`, dir)
	files := [2]string{newFIFO(t), newFIFO(t)}
	long, short := prepareCheck(t, c, `{"file":"`+files[0]+`"}`), prepareCheck(t, c, `{"file":"`+files[1]+`"}`)
	ctx, cancel := context.WithCancel(t.Context())
	other := make(chan error)
	go func() {
		_, err := long.Probe(ctx, probe.Request{Attempt: 1})
		other <- err
	}()
	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	second, out, err := expire(t, short, files[1])
	if err != nil || out.Output != "timed out after 500ms" {
		t.Errorf("got %v, %v", out, err)
	}
	awaitEnd(t, watchEnd(t, number(t, second)), "what the command had started")
	ended := watchEnd(t, number(t, string(first)))
	select {
	case <-ended:
		t.Error("what the other run has started was ended too")
	default:
	}
	select {
	case err := <-other:
		t.Errorf("the other run has ended: %v", err)
	default:
	}
	cancel()
	if err := <-other; !errors.Is(err, context.Canceled) {
		t.Errorf("the other run: %v", err)
	}
}

func numberIn(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return number(t, string(text))
}

func number(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestDescriptorsNotInherited checks that a process inherits only its three streams and its executable.
func TestDescriptorsNotInherited(t *testing.T) {
	var inherited [2]int // descriptors as if this program was started with them
	if err := unix.Pipe(inherited[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited[0])
	defer unix.Close(inherited[1])
	other := load(t, process.Config{}) // its streams and connection are open in this program
	h := load(t, process.Config{})
	got, err := attempt(t, bind(t, h, "fds"), patience)
	if err != nil {
		t.Fatal(err)
	}
	ours := make(map[string]bool)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:")) {
			ours[to] = true
		}
	}
	seen := 0
	for line := range strings.Lines(got.Output) {
		fd, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(fd)
		switch {
		case err != nil:
			t.Fatalf("got %q", got.Output)
		case n < 3 && strings.HasPrefix(to, "pipe:"), n == 3 && strings.HasPrefix(to, "/memfd:prober-plugin-tester"):
			seen++
		case ours[to]:
			t.Errorf("descriptor %d is ours: %s", n, to)
		}
	}
	if seen != 4 {
		t.Errorf("got %q", got.Output)
	}
	if _, err := attempt(t, bind(t, other, "ok"), patience); err != nil {
		t.Error(err)
	}
}

func TestCheckConcurrencyLimit(t *testing.T) {
	dir := checkFolder(t)
	begun := newFIFO(t)
	f := checkOf(t, `[check_it, hang, "`+begun+`"]`, dir)
	f.Limits.Instances = 1
	c, err := process.LoadCheck(process.Config{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := prepareCheck(t, c, `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := h.Probe(ctx, probe.Request{Attempt: 1})
		first <- err
	}()
	if _, err := os.ReadFile(begun); err != nil { // the read waits for the command
		t.Fatal(err)
	}
	if _, err := attempt(t, h, patience); !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("got %v, want no slot", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that had it: %v", err)
	}
}
