package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// launch says what the system needs to start a program.
type launch struct {
	script bool
	elf    bool
	helper string // path of a script's interpreter, or of an ELF program's loader; "" if none was found
}

// shebang is the longest first line of a script that Linux reads, in bytes.
const shebang = 256

// loaderName matches the path of the loader at the beginning of an ELF program.
var loaderName = regexp.MustCompile(`/[!-~]*/(?:ld|ld-)[!-~]*\x00`)

// launchOf reads the beginning of a program.
func launchOf(code []byte) launch {
	switch {
	case bytes.HasPrefix(code, []byte("#!")):
		line, _, _ := bytes.Cut(code[2:min(len(code), shebang)], []byte("\n"))
		words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
		return launch{script: true, helper: strings.Join(words[:min(1, len(words))], "")}
	case bytes.HasPrefix(code, []byte("\x7fELF")):
		return launch{elf: true, helper: strings.TrimSuffix(string(loaderName.Find(code[:min(len(code), 4<<10)])), "\x00")}
	default:
		return launch{}
	}
}

// explain returns err, with which the program at path could not be started, and the cause if it is known. The system
// reports a missing interpreter as if the program itself was missing.
func (l launch) explain(path string, err error) error {
	_, missing := os.Stat(l.helper)
	why := ""
	switch {
	case errors.Is(err, syscall.ENOEXEC) && l.elf:
		why = "it is a program for another processor or system"
	case errors.Is(err, syscall.ENOEXEC) && !l.script:
		why = "it is neither a program for this system nor a script, which begins with #!"
	case !errors.Is(err, os.ErrNotExist) || l.helper == "" || missing == nil:
	case strings.HasSuffix(l.helper, "\r"):
		why = "its first line ends with a carriage return: save the script with line feeds alone"
	case l.script:
		why = fmt.Sprintf("its interpreter %s, which the first line names, does not exist", l.helper)
	case l.elf:
		why = fmt.Sprintf("its loader %s does not exist: it is built for another C library or system", l.helper)
	}
	if why == "" {
		return err
	}
	if e, ok := errors.AsType[*os.PathError](err); ok { // its path may be that of the copy
		err = e.Err
	}
	return fmt.Errorf("%s cannot be started: %s: %w", path, why, err)
}
