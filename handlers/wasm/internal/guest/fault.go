package guest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/rustname"
)

// fault is the message of a panic. The zero value has none.
type fault struct {
	text string
	open bool // the next line belongs to it
}

// add reads a line that the guest has printed.
func (f *fault) add(line string) {
	switch {
	case f.open:
		f.text, f.open = f.text+" "+line, false
	case f.text == "" && isPanic(line):
		// Rust prints the place first, then the message.
		f.text, f.open = line, strings.HasSuffix(line, ":")
	}
}

// isPanic reports whether Go, TinyGo, Rust, Zig or Swift begin the message of a panic with line.
func isPanic(line string) bool {
	switch {
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		return true
	case strings.HasPrefix(line, "thread "):
		return strings.Contains(line, " panicked at ") || strings.Contains(line, " panic: ")
	default:
		return strings.Contains(line, "Fatal error: ")
	}
}

// panicIn returns the message of the panic in output, "" if there is none.
func panicIn(output []byte) string {
	var f fault
	for line := range strings.Lines(string(output)) {
		f.add(strings.TrimRight(line, "\r\n"))
	}
	return f.text
}

// maxFault is the maximum length of the line that [World.FaultLine] returns, in bytes.
const maxFault = 2 << 10

// oneLine returns text as one line of at most maxFault bytes.
func oneLine(text string) string {
	return clip.Bytes(strings.Join(strings.Fields(text), " "), maxFault)
}

// Frames returns the stack trace in the error of a guest's call, the innermost frame first. Names of Rust are
// demangled; the linker does this for C++, and names of other languages are as in the source. Functions without a
// name have their index in the plugin's module, such as "$7".
func (w *World) Frames(err error) []string {
	_, trace, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	trace, _, _ = strings.Cut(trace, "\n\n") // a stack trace of the host follows
	var frames []string
	for line := range strings.Lines(trace) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "."); line != "" {
			frames = append(frames, w.frame(line))
		}
	}
	return frames
}

// frame returns a frame such as "_ZN4core9panicking5panic17h0123456789abcdefE(i32,i32)" with the name of the plugin's
// author.
func (w *World) frame(text string) string {
	name, signature, _ := strings.Cut(text, "(")
	if readable, ok := rustname.Demangle(name); ok {
		return readable + "(" + signature
	}
	if index, err := strconv.Atoi(strings.TrimPrefix(name, "$")); err == nil && w.fuel != nil { // one import was added
		return fmt.Sprintf("$%d(%s", index-1, signature)
	}
	return text
}
