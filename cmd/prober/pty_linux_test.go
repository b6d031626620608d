package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a running program, and its screen.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	before unix.Termios
	cmd    *exec.Cmd
	after  unix.Termios // of the terminal when the program has ended
	ended  chan error
	shown  chan struct{} // closed when the screen has all output

	mu       sync.Mutex
	emulator *vt.Emulator
	changed  chan struct{} // closed when something was written
	alt      bool          // the alternate screen is shown
	hidden   bool          // the cursor is
	noise    []string      // bells and titles
	raw      []byte        // all output of the program
}

// openTerminal runs a program on a new terminal.
func openTerminal(t *testing.T, width, height int, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &terminal{t: t, master: master, slave: slave, cmd: cmd, ended: make(chan error, 1), shown: make(chan struct{}), emulator: vt.NewEmulator(width, height), changed: make(chan struct{})}
	s.resize(width, height)
	s.before = s.settings()
	s.emulator.SetCallbacks(vt.Callbacks{
		Bell:             func() { s.noise = append(s.noise, "bell") },
		Title:            func(text string) { s.noise = append(s.noise, "title "+text) },
		AltScreen:        func(on bool) { s.alt = on },
		CursorVisibility: func(visible bool) { s.hidden = !visible },
	})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- cmd.Wait() }()
	var running sync.WaitGroup
	running.Go(s.show)
	running.Go(s.respond)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended if all went well
		_ = slave.Close()
		_ = master.Close()
		_ = s.emulator.InputPipe().(io.Closer).Close() // Close of the emulator races with Read
		running.Wait()
	})
	return s
}

// show copies the output of the program to the screen.
func (s *terminal) show() {
	defer close(s.shown)
	buffer := make([]byte, 4096)
	for {
		n, err := s.master.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.raw = append(s.raw, buffer[:n]...)
		_, _ = s.emulator.Write(buffer[:n])
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

// respond sends the terminal's answers to queries.
func (s *terminal) respond() {
	buffer := make([]byte, 256)
	for {
		n, err := s.emulator.Read(buffer)
		if err != nil {
			return
		}
		_, _ = s.master.Write(buffer[:n])
	}
}

func (s *terminal) settings() unix.Termios {
	s.t.Helper()
	settings, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *settings
}

func (s *terminal) resize(width, height int) {
	s.t.Helper()
	s.mu.Lock()
	s.emulator.Resize(width, height)
	s.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		s.t.Fatal(err)
	}
}

// press types keys.
func (s *terminal) press(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until the screen has all texts, except texts that begin with "!", which it must not have.
func (s *terminal) await(texts ...string) string {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		screen, changed := s.emulator.String(), s.changed
		s.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if without, ok := strings.CutPrefix(text, "!"); ok == strings.Contains(screen, without) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		select {
		case <-changed:
		case err := <-s.ended:
			s.t.Fatalf("the program has ended, %v, before %q:\n%s", err, missing, screen)
		case <-deadline:
			s.t.Fatalf("never came: %q on\n%s", missing, screen)
		}
	}
}

// wait waits for the end of the program, and returns its exit code.
func (s *terminal) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
		s.after = s.settings()
		_ = s.slave.Close() // the last one: reads of the master end after what was written
		<-s.shown
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatal("the program does not end")
		return -1
	}
}
