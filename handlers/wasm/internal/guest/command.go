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

// A command is a WASI program that exports _start and no probe. Each attempt runs it in a new
// instance, in the same sandbox as other guests. It reads the request from stdin and its
// environment. Its result is its exit code and its output.

// commandConfig adds stdin and environment of a command to config. c is nil while the plugin is
// loaded.
func (w *World) commandConfig(config wazero.ModuleConfig, c *Call) wazero.ModuleConfig {
	config = config.WithStdin(&stdin{w: w})
	if c == nil {
		return config
	}
	for _, v := range c.environment() {
		if !strings.Contains(v[1], "\x00") { // WASI cannot represent it
			config = config.WithEnv(v[0], v[1])
		}
	}
	return config
}

// stdin reads the request document.
type stdin struct {
	w    *World
	sent int
}

// Read implements [io.Reader].
func (s *stdin) Read(p []byte) (int, error) {
	if s.w.call.inInitialize {
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

// environment returns the environment of a command. Variables without a value are left out.
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

// positive formats n, and returns "" if n is not positive.
func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// configVars returns variables for the scalars of a config, such as PROBE_CONFIG_MAXLAG for maxLag. If
// keys have the same variable, the alphabetically first is used.
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

// variable returns key in upper case. Characters other than letters and digits become underscores.
func variable(key string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(key))
}

// Exited returns the exit code of a command whose call returned err. ok is false if the command did
// not exit by itself.
func (w *World) Exited(err error) (code int32, ok bool) {
	if err == nil {
		return 0, true
	}
	exit, ok := errors.AsType[*sys.ExitError](err)
	if !ok || w.call.ctx.Err() != nil {
		return 0, false
	}
	// A Go program that panics exits with 2, which must not count as a Failure of the target.
	if exit.ExitCode() == 2 && w.stderr.goTrace && w.plugin.Manifest.ExitCodes != plugin.ExecCodes {
		return 0, false
	}
	return int32(min(exit.ExitCode(), math.MaxInt32)), true
}

// readCommand parses the output of a command, and returns the verdict for its exit code. If stdout is
// empty, the message is the first line of stderr. A message that was set with a host function takes
// precedence.
func (c *Call) readCommand(code int32, w *World) (int32, error) {
	message, numbers := perfdata.Split(strings.ToValidUTF8(string(w.stdout.kept), "\uFFFD"))
	c.message = cmp.Or(c.message, message, strings.ToValidUTF8(w.stderr.first, "\uFFFD"))
	read := perfdata.Read(numbers, max(0, c.plugin.Limits.Series-len(c.metrics)), c.req.Redacted)
	if read.More {
		c.Hit(plugin.LimitSeries)
	}
	c.metrics = append(c.metrics, read.Metrics...)
	if err := attempt.WarnOfPerfdata(c.req, &read, c.Told, c.warnPerfdata); err != nil && c.host.Strict {
		return 0, err
	}
	switch {
	case c.plugin.Manifest.ExitCodes != plugin.ExecCodes:
		if _, ok := probe.FromExitCode(int(code)); !ok {
			return 0, attempt.ProtocolError("exited with code %d; want 0 to 3%s", code, messageSuffix(c.message))
		}
	case code != 0:
		code = int32(probe.Failure.ExitCode())
	}
	return code, nil
}

// warnPerfdata writes a warning about the performance data of the probe to the host's log.
func (c *Call) warnPerfdata(text string) {
	c.host.Logger.WarnContext(c.ctx, text, append(attempt.ProbeOf(c.req), "handler", c.plugin.Manifest.Name)...)
}

// messageSuffix returns the first line of message in the form that is appended to an error.
func messageSuffix(message string) string {
	if message == "" {
		return ""
	}
	first, _, _ := strings.Cut(message, "\n")
	return fmt.Sprintf(": %s", first)
}
