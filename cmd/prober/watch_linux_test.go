package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// watchCommand returns `prober watch` of the agent.
func (r *clientRig) watchCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "prober", append([]string{"watch"}, args...)...)
	unset := func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "LC_") || name == "NO_COLOR"
	}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), unset), "PROBER_SERVER=unix:"+r.agent.socket, "TERM=xterm-256color", "LANG=C.UTF-8")
	return cmd
}

func TestWatchShowsAndActs(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	s := openTerminal(t, 150, 12, r.watchCommand(t))
	screen := s.await("2 probes: 2 success, 0 failure", "shop/idle", "[31mred", "LAST 20")
	if !strings.Contains(screen, "<b> [31mred") {
		t.Errorf("the output of the target:\n%s", screen)
	}
	r.broken.Store(true)
	s.await("1 success, 1 failure", "HTTP probe failed with statuscode: 500", "█")
	s.press("s")
	s.await("sort: duration")
	s.press("/idle\r")
	s.await("filter: idle", "!shop/web")
	s.press("\x1b")
	s.await("shop/web", "!filter: idle")
	s.press("/web\r")
	s.await("!shop/idle")
	s.press("p\x151h\r")
	s.await("paused until ", "1 paused", "pause shop/web readiness: done")
	s.press("r")
	s.await("resume shop/web readiness: done", "!paused until")
	s.press("t")
	s.await("trigger shop/web readiness: done")
	s.press("\r")
	s.await("default/shop/web readiness (GET http://127.0.0.1:", "): failure", "esc back")
	s.press("G")
	s.await("Events of the pod:")
	s.press("\x1b")
	s.await("LAST 20")
	s.resize(60, 8)
	s.await("KIND", "!LAST 20")
	s.press("q")
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alt || s.hidden || s.after != s.before {
		t.Errorf("the terminal is left with the other screen: %t, a hidden cursor: %t, settings %+v, want %+v", s.alt, s.hidden, s.after, s.before)
	}
	if len(s.noise) > 0 || strings.Contains(string(s.raw), "\a") {
		t.Errorf("a target reached the terminal: %q", s.noise)
	}
	// Which rows have a color depends on the selected one, which has none.
	if !regexp.MustCompile(`\x1b\[3[123]m`).Match(s.raw) {
		t.Error("there is no color")
	}
}

func TestWatchConnectsAgain(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	again := exec.Command(r.agent.cmd.Path)
	again.Args = r.agent.cmd.Args
	s := openTerminal(t, 150, 12, r.watchCommand(t, "shop/web"))
	s.await("1 probes: 1 success")
	r.agent.stop(t)
	s.await("reconnecting: ")
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = again.Process.Signal(syscall.SIGTERM)
		_ = again.Wait()
	})
	s.await("!reconnecting", "1 probes: 1 success", "shop/web")
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("SIGINT: exit code %d", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alt || s.hidden || s.after != s.before {
		t.Error("the terminal is not restored")
	}
}

func TestWatchWithoutColor(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	cmd := r.watchCommand(t)
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	s := openTerminal(t, 120, 10, cmd)
	s.await("2 probes: 2 success")
	s.press("\x03")
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if colors := regexp.MustCompile(`\x1b\[([0-9;:]*;)?[34][0-9][;m]`).FindString(string(s.raw)); colors != "" {
		t.Errorf("there is a color: %q", colors)
	}
}

func TestWatchWritesLines(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	cmd := r.watchCommand(t, "shop/web")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ default/shop/web readiness `+want+`$`).MatchString(lines.Text()) {
			t.Errorf("got %q, want %s", lines.Text(), want)
		}
	}
	next(`success: <b> \[31mred   �`)
	r.broken.Store(true)
	next("failure: HTTP probe failed with statuscode: 500")
	if code, _, stderr := r.run(t, "pause", "shop/web", "--reason", "a test"); code != 0 {
		t.Error(stderr)
	}
	next("failure, paused: a test")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || len(rest) > 0 {
		t.Errorf("after SIGINT: %v, %q", err, rest)
	}
	dumb := r.watchCommand(t)
	dumb.Env = append(dumb.Env, "TERM=dumb")
	s := openTerminal(t, 120, 10, dumb)
	s.await("default/shop/idle liveness success")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alt || strings.Contains(string(s.raw), "\x1b") {
		t.Errorf("TERM=dumb: %q", s.raw)
	}
}

func TestWatchOfNoAgent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("prober", "watch", "--server", "127.0.0.1:1")
	s := openTerminal(t, 120, 10, cmd)
	if code := s.wait(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if s.alt {
		t.Error("the screen was changed")
	}
}

// Rows of tables are cut at the width of the terminal. -o wide has all of them.
func TestTablesFitOnTheTerminal(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	rows := func(args ...string) []string {
		cmd := r.watchCommand(t)
		cmd.Args = append([]string{"prober"}, args...)
		s := openTerminal(t, 60, 24, cmd)
		if code := s.wait(); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Split(strings.TrimSpace(string(s.raw)), "\r\n")
	}
	cut := 0
	for _, row := range append(rows("get", "events"), rows("get", "probes")...) {
		if n := utf8.RuneCountInString(row); n > 60 || strings.HasSuffix(row, "…") && n != 60 {
			t.Errorf("%d columns: %s", n, row)
		}
		if strings.HasSuffix(row, "…") {
			cut++
		}
	}
	if cut == 0 {
		t.Error("no row was cut")
	}
	if row := rows("get", "probes", "-o", "wide")[1]; utf8.RuneCountInString(row) <= 60 || strings.Contains(row, "…") {
		t.Errorf("-o wide: %s", row)
	}
}

// The first compilation of a plugin takes seconds: a terminal shows a line meanwhile.
func TestTerminalShowsCompilation(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "prober", "probe", "plugin", "httpcheck", "--target", "http://127.0.0.1:1/", "--timeout", "1m")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	s := openTerminal(t, 80, 24, cmd)
	if code := s.wait(); code != 2 && code != 3 {
		t.Errorf("exit code %d", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if screen := s.emulator.String(); !strings.Contains(string(s.raw), "prober: loading plugin httpcheck ...") || strings.Contains(screen, "loading") {
		t.Errorf("wrote %q, the screen is\n%s", s.raw, screen)
	}
}
