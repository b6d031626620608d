package wasm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/plugin"
)

// A module of a few kilobytes can keep wazero's compiler busy for minutes and fill the
// memory, and nothing stops a compilation. So a module that is not in the cache is compiled
// by a process of its own, which ends when it has taken too much, and leaves what it made in
// the cache.
const (
	compilerArgument = "__prober-module-compiler"

	compilerLast = 5 * time.Minute
	compilerCode = 192 << 20 // bytes of native code

	// compilerPause is for how long a module that took too much is not tried again.
	compilerPause = time.Hour
)

// compilerLimits is what one compilation may take.
type compilerLimits struct {
	Time   time.Duration // on a processor
	Memory uint64
}

// A Go guest takes 1 to 2 s and 100 MB; under the race detector 25 s.
var usualCompiler = compilerLimits{Time: time.Minute, Memory: 768 << 20}

// IsCompiler reports whether a program that was started with args (os.Args) is to compile
// one module. It must then call [CompilerMain] and nothing else.
func IsCompiler(args []string) bool { return len(args) == 2 && args[1] == compilerArgument }

// order is what a compiler is told, before the bytes of the module.
type order struct {
	Cache    string // a folder
	Own      string // a folder in it, for what is not finished
	Size     int
	Volatile bool
	Features api.CoreFeatures
	Limits   compilerLimits
}

// CompilerMain compiles the module that it reads from stdin, and returns the code for the
// program to exit with. What is wrong with the module goes to stdout. It ends when stdin is
// closed, for the host has died then.
func CompilerMain() int {
	beNice()
	err := compileOrdered(bufio.NewReader(os.Stdin))
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	return 0
}

// enforce ends the process when it takes too much.
func (l compilerLimits) enforce(start time.Time) {
	debug.SetMemoryLimit(int64(l.Memory / 4 * 3))
	for range time.Tick(10 * time.Millisecond) {
		switch {
		case memoryTaken() > l.Memory:
			fmt.Fprintf(os.Stdout, "it takes more than %s of memory\n", plugin.FormatSize(int(l.Memory)))
		case processorTime(start) > l.Time:
			fmt.Fprintf(os.Stdout, "it takes more than %v\n", l.Time)
		default:
			continue
		}
		os.Exit(exitTooMuch)
	}
}

const exitTooMuch = 3

// unfinished is how the names of folders begin that a compiler works in.
const unfinished = "compiling-"

// finished is how the names of files begin that say which modules were compiled apart.
const finished = "compiled-"

func memoryTaken() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

func compileOrdered(in *bufio.Reader) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	go o.Limits.enforce(time.Now())
	m := &binary.Module{Code: make([]byte, min(o.Size, 2*plugin.MaxModule)), Volatile: o.Volatile, Features: o.Features}
	if _, err := io.ReadFull(in, m.Code); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(exitTooMuch)
	}()
	return compileInto(o.Cache, o.Own, m)
}

// compileInto compiles m in the folder own, and moves what that made to the cache in folder.
func compileInto(folder, own string, m *binary.Module) error {
	cache, err := newCache(own)
	if err != nil {
		return err
	}
	made := compileFor(m, func(features api.CoreFeatures) compilation {
		return compileIn(context.Background(), wazero.NewRuntimeWithConfig(context.Background(), compilerConfig(features).WithCompilationCache(cache)), m.Code)
	})
	if made.err != nil {
		return made.err
	}
	files, _ := filepath.Glob(filepath.Join(own, "v*", "wazero-*", "*"))
	for _, file := range files {
		info, err := os.Lstat(file)
		if err == nil && info.Size() > compilerCode {
			return fmt.Errorf("compile: it becomes %d bytes of native code; at most %d are allowed", info.Size(), compilerCode)
		}
		inside, _ := filepath.Rel(own, file)
		if err := os.Rename(file, filepath.Join(folder, inside)); err != nil {
			return err
		}
	}
	return nil
}

// errNoCompiler means that there is no program to compile with.
var errNoCompiler = errors.New("no compiler can be started")

// errTooMuch is the error of a module that takes too much to compile.
type errTooMuch struct{ text string }

func (e *errTooMuch) Error() string { return "compile: " + e.text }

// compileApart has m compiled by another process, unless that was done before. The error is
// what is wrong with m; where no process can be started, nothing is.
func (h *Host) compileApart(ctx context.Context, m *binary.Module) error {
	if h.cfg.Compiler == "" || h.cfg.Interpreter || h.remakeCache() != nil || h.cacheFolder == "" {
		return nil
	}
	digest := plugin.Digest(m.Code)
	mark := filepath.Join(h.cacheFolder, wazeroVersion, finished+strings.TrimPrefix(digest, "sha256:"))
	if now := time.Now(); os.Chtimes(mark, now, now) == nil {
		return nil
	}
	if err := h.bomb(digest); err != nil {
		return err
	}
	err := h.runCompiler(ctx, m)
	if errors.Is(err, errNoCompiler) { // it was deleted or replaced while this program runs
		h.cfg.Logger.WarnContext(ctx, "a plugin is compiled without limits of time and memory", "error", err.Error())
		return nil
	}
	if tooMuch, ok := errors.AsType[*errTooMuch](err); ok {
		h.noteBomb(digest, tooMuch)
	}
	if err == nil {
		_ = os.WriteFile(mark, nil, 0o600) // else it is compiled again
	}
	return err
}

// runCompiler starts the compiler and waits for it. It is ended with ctx.
func (h *Host) runCompiler(ctx context.Context, m *binary.Module) error {
	ctx, cancel := context.WithTimeoutCause(ctx, compilerLast, &errTooMuch{fmt.Sprintf("it takes more than %v", compilerLast)})
	defer cancel()
	own, err := os.MkdirTemp(h.cacheFolder, unfinished)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCompiler, err) // the cache cannot be written to
	}
	defer os.RemoveAll(own)
	head, err := json.Marshal(order{Cache: h.cacheFolder, Own: own, Size: len(m.Code), Volatile: m.Volatile, Features: m.Features, Limits: h.compilerLimits})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, h.cfg.Compiler, compilerArgument)
	cmd.Env = []string{"GOTRACEBACK=none"}
	var out bytes.Buffer
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", errNoCompiler, err)
	} else if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	_, _ = io.Copy(in, io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(m.Code))) // and stays open
	err = cmd.Wait()
	text, _, _ := strings.Cut(out.String(), "\n")
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case cmd.ProcessState.ExitCode() == 1 && text != "":
		return errors.New(text)
	default: // one that the system has killed, too
		return &errTooMuch{cmp.Or(text, fmt.Sprintf("the compiler ended: %v", err))}
	}
}

// bomb returns the error of a module that has lately taken too much.
func (h *Host) bomb(digest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bombs = slices.DeleteFunc(h.bombs, func(b bomb) bool { return time.Now().After(b.until) })
	for _, b := range h.bombs {
		if b.digest == digest {
			return fmt.Errorf("%w; it is not tried again before %s", b.err, b.until.Format(time.TimeOnly))
		}
	}
	return nil
}

func (h *Host) noteBomb(digest string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bombs = append(h.bombs, bomb{digest, err, time.Now().Add(compilerPause)})
}

// bomb is a module that took too much to compile.
type bomb struct {
	digest string
	err    error
	until  time.Time
}
