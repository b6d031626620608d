package guest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// A command is a program for WASI that exports _start, and no probe. Each attempt runs it
// once, in an instance of its own and in the sandbox of every guest. It finds the request
// on stdin and in its environment, and answers with its exit code and what it prints.

// commandConfig adds what a command sees of the outside. c is
// the attempt that the instance is for; nil while the plugin is loaded.
func (w *World) commandConfig(config wazero.ModuleConfig, c *Call) wazero.ModuleConfig {
	config = config.WithStdin(&stdin{w: w})
	if c == nil {
		return config
	}
	for _, v := range c.environment() {
		if !strings.Contains(v[1], "\x00") { // WASI has no way to say it
			config = config.WithEnv(v[0], v[1])
		}
	}
	return config
}

// stdin is the request document.
type stdin struct {
	w    *World
	sent int
}

// Read implements [io.Reader].
func (s *stdin) Read(p []byte) (int, error) {
	if s.w.call.starting {
		return 0, io.EOF
	}
	doc := s.w.call.requestDoc()
	if s.sent == len(doc) {
		return 0, io.EOF
	}
	n := copy(p, doc[s.sent:])
	s.sent += n
	return n, nil
}

// environment is what a command finds of the request in its environment: what is said,
// and nothing for what is not.
func (c *Call) environment() [][2]string {
	q := c.req
	vars := [][2]string{
		{"PROBE_KIND", q.Kind.String()},
		{"PROBE_TARGET_HOST", q.Target.Host},
		{"PROBE_TARGET_PORT", positive(int64(q.Target.Port))},
		{"PROBE_TARGET_UNIX", q.Target.Unix},
		{"PROBE_TIMEOUT_MS", positive(q.Spec.Timeout.Milliseconds())},
		{"PROBE_ATTEMPT", positive(int64(q.Attempt))},
		{"PROBE_CONFIG", string(c.config)},
	}
	if q.Pod != nil {
		vars = append(vars, [2]string{"PROBE_NAMESPACE", q.Pod.Namespace}, [2]string{"PROBE_POD", q.Pod.Name})
	}
	if q.Container != nil {
		vars = append(vars, [2]string{"PROBE_CONTAINER", q.Container.Name})
	}
	vars = append(vars, configVars(c.config)...)
	return slices.DeleteFunc(vars, func(v [2]string) bool { return v[1] == "" })
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// configVars are the scalars of a config, PROBE_CONFIG_MAXLAG for maxLag. Of keys that
// differ in more than letters and digits only, the first in order counts.
func configVars(config []byte) (vars [][2]string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(config, &fields) != nil {
		return nil
	}
	seen := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := fields[key]
		name := "PROBE_CONFIG_" + variable(key)
		if value[0] == '{' || value[0] == '[' || string(value) == "null" || key == "" || seen[name] {
			continue
		}
		seen[name] = true
		vars = append(vars, [2]string{name, abi.Text(value)})
	}
	return vars
}

// variable returns key in the letters of variables.
func variable(key string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(key))
}

// Exited returns the exit code of a command whose call ended with err; ok is false where
// it did not come to one.
func (w *World) Exited(err error) (code int32, ok bool) {
	if err == nil {
		return 0, true
	}
	exit, ok := errors.AsType[*sys.ExitError](err)
	if !ok || w.call.ctx.Err() != nil {
		return 0, false
	}
	// A program of Go that panics exits with 2 as well, which would make a Failure of the
	// target out of a plugin that is broken.
	if exit.ExitCode() == 2 && w.stderr.goTrace && w.plugin.Manifest.ExitCodes != plugin.ExecCodes {
		return 0, false
	}
	return int32(min(exit.ExitCode(), math.MaxInt32)), true
}

// readCommand takes in what a command printed, as far as it did not say it to the host by
// functions, and returns its exit code in the numbers of a reactor. A command that says
// nothing on stdout is taken by the first line that it wrote to stderr.
func (c *Call) readCommand(code int32, w *World) (int32, error) {
	message, numbers := perfdata.Split(strings.ToValidUTF8(string(w.stdout.kept), "\uFFFD"))
	c.message = cmp.Or(c.message, message, strings.ToValidUTF8(w.stderr.first, "\uFFFD"))
	metrics, more := perfdata.Metrics(numbers, max(0, c.plugin.Limits.Series-len(c.metrics)), c.req.Redacted)
	if more {
		c.Hit(plugin.LimitSeries)
	}
	c.metrics = append(c.metrics, metrics...)
	switch {
	case c.plugin.Manifest.ExitCodes != plugin.ExecCodes:
		if _, ok := probe.FromExitCode(int(code)); !ok {
			return 0, attempt.ProtocolError("exited with code %d; want 0 to 3%s", code, after(c.message))
		}
	case code != 0:
		code = int32(probe.Failure.ExitCode())
	}
	return code, nil
}

func after(message string) string {
	if message == "" {
		return ""
	}
	first, _, _ := strings.Cut(message, "\n")
	return fmt.Sprintf(": %s", first)
}
