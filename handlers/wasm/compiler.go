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
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/compiled"
	"github.com/daeace23/prober/plugin"
)

// A small module can keep wazero's compiler busy for minutes and exhaust the memory, and a compilation
// cannot be stopped. So a separate process compiles each module that is not in the cache. The
// process exits when it exceeds a limit. Otherwise it moves its result to the cache.
const (
	compilerArgument = "__prober-module-compiler"

	compilerTimeout = 5 * time.Minute
	compilerCode    = 192 << 20 // limit of native code, in bytes

	// compilerPause is the time before a module that exceeded a limit is compiled again.
	compilerPause = time.Hour
)

// compilerLimits are the limits of one compilation.
type compilerLimits struct {
	Time   time.Duration // processor time
	Memory uint64
}

// A Go guest takes 1 to 2 s and 100 MB, and 25 s under the race detector.
var usualCompiler = compilerLimits{Time: time.Minute, Memory: 768 << 20}

// IsCompiler reports whether a program that was started with args (os.Args) is the compiler
// of a module. It must then call [CompilerMain] and nothing else.
func IsCompiler(args []string) bool { return len(args) == 2 && args[1] == compilerArgument }

// order is the first line of a compiler's stdin, in JSON. The bytes of the module follow.
type order struct {
	Cache  string         // the cache folder
	Own    string         // the working folder, in the cache folder
	Name   string         // the file name of the stub
	Module *binary.Module // without the code
	Size   int            // of the code, in bytes
	Limits compilerLimits
}

// CompilerMain compiles the module that it reads from stdin, and returns the exit code of the
// program. It writes an error of the module to stdout. The process exits when stdin is closed,
// because the host has exited then.
func CompilerMain() int {
	beNice()
	err := compileOrdered(bufio.NewReader(os.Stdin))
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	return 0
}

// enforce ends the process when it exceeds a limit.
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

// maxCode is the maximum size of an inspected module or its stub, in bytes.
const maxCode = 4 * plugin.MaxModule

// workPrefix is the prefix of the working folders of compilers.
const workPrefix = "compiling-"

// memoryTaken returns how many bytes of memory the Go runtime of this process holds.
func memoryTaken() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// compileOrdered reads an order and its module from in, and compiles the module.
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
	o.Module.Code = make([]byte, min(o.Size, maxCode))
	if _, err := io.ReadFull(in, o.Module.Code); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(exitTooMuch)
	}()
	return compileInto(o.Cache, o.Own, o.Name, o.Module)
}

// compileInto compiles m in the folder own, and moves the native code and the stub to the cache in
// folder. name is the file name of the stub.
func compileInto(folder, own, name string, m *binary.Module) error {
	code, volatile, err := compileAlone(filepath.Join(own, "code"), m)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(code); err != nil {
		return err
	} else if info.Size() > compilerCode {
		return fmt.Errorf("compile: it becomes %d bytes of native code; at most %d are allowed", info.Size(), compilerCode)
	}
	found := *m
	found.Volatile = volatile
	stub, err := compiled.Stub(&found)
	if err != nil {
		return err
	}
	place, _, err := compileAlone(filepath.Join(own, "stub"), stub)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(filepath.Join(own, "stub"), place)
	if err != nil {
		return err
	}
	if err := os.Rename(code, filepath.Join(folder, inside)); err != nil {
		return err
	}
	return compiled.Write(stubPath(folder, name), stub)
}

// compileAlone compiles m with its own cache in folder. It returns the path of the native code, and
// whether the module is volatile.
func compileAlone(folder string, m *binary.Module) (file string, volatile bool, err error) {
	ctx := context.Background()
	cache, err := newCache(folder)
	if err != nil {
		return "", false, err
	}
	defer cache.Close(ctx)
	made := compileFor(m, func(features api.CoreFeatures) compilation {
		return compileIn(ctx, compilerConfig(wazero.NewRuntimeConfig(), features, m.Metered).WithCompilationCache(cache), m.Code)
	})
	defer made.close()
	if made.err != nil {
		return "", false, made.err
	}
	files, err := filepath.Glob(filepath.Join(folder, "v*", "wazero-*", "*"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("compile: %d files of native code", len(files))
	}
	if err != nil {
		return "", false, err
	}
	return files[0], m.Volatile || made.volatile, nil
}

// errNoCompiler means that the compiler cannot be started.
var errNoCompiler = errors.New("no compiler can be started")

// errTooMuch is the error of a compilation that exceeded a limit.
type errTooMuch struct{ text string }

func (e *errTooMuch) Error() string { return "compile: " + e.text }

// compileApart compiles m in another process, which adds it to the cache. It also returns nil if no
// process can be started.
func (h *Host) compileApart(ctx context.Context, name string, m *binary.Module) error {
	if h.cfg.Compiler == "" || !h.stubs() || h.remakeCache() != nil {
		return nil
	}
	digest := plugin.Digest(m.Code)
	if err := h.bombError(digest); err != nil {
		return err
	}
	err := h.runCompiler(ctx, name, m)
	if errors.Is(err, errNoCompiler) { // its file was removed or replaced
		h.cfg.Logger.WarnContext(ctx, "a plugin is compiled without limits of time and memory", "error", err.Error())
		return nil
	}
	if tooMuch, ok := errors.AsType[*errTooMuch](err); ok {
		h.addBomb(digest, tooMuch)
	}
	return err
}

// runCompiler runs the compiler, and kills it when ctx ends.
func (h *Host) runCompiler(ctx context.Context, name string, m *binary.Module) error {
	ctx, cancel := context.WithTimeoutCause(ctx, compilerTimeout, &errTooMuch{fmt.Sprintf("it takes more than %v", compilerTimeout)})
	defer cancel()
	own, err := os.MkdirTemp(h.cacheFolder, workPrefix)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCompiler, err) // the cache folder is not writable
	}
	defer os.RemoveAll(own)
	head, err := json.Marshal(order{Cache: h.cacheFolder, Own: own, Name: name, Module: m.WithCode(nil), Size: len(m.Code), Limits: h.compilerLimits})
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
	// in stays open: its end would end the compiler.
	_, _ = io.Copy(in, io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(m.Code)))
	err = cmd.Wait()
	text, _, _ := strings.Cut(out.String(), "\n")
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case cmd.ProcessState.ExitCode() == 1 && text != "":
		return errors.New(text)
	default: // including a compiler that the system killed
		return &errTooMuch{cmp.Or(text, fmt.Sprintf("the compiler ended: %v", err))}
	}
}

// bomb is a module whose compilation exceeded a limit.
type bomb struct {
	err   error
	until time.Time // when it may be compiled again
}

// bombError returns the error of a module whose compilation exceeded a limit within compilerPause.
func (h *Host) bombError(digest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.bombs[digest]
	if !ok || time.Now().After(b.until) {
		return nil
	}
	return fmt.Errorf("%w; it is not tried again before %s", b.err, b.until.Format(time.TimeOnly))
}

func (h *Host) addBomb(digest string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bombs[digest] = bomb{err, time.Now().Add(compilerPause)}
}
