package program

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/nearest"
)

// flagError returns the error of a wrong flag of cmd, with a hint. A word in place of a subcommand is the error if cmd
// has only subcommands, and the flags may belong to the command that the user means.
func flagError(env *command.Env, cmd *cobra.Command, err error) error {
	if rest := after(cmd, env.Args); cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return command.Unknown(cmd, rest[0], rest[1:]...)
	}
	hint := cmd.CommandPath() + " --help lists the flags"
	if text, args := correction(cmd, err, env.Args); args != nil && parses(cmd, args) {
		hint = text + command.Quote(append([]string{cmd.Root().Name()}, args...))
	} else if text != "" {
		hint = text + hint
	}
	return command.Usage(hint, "%w", err)
}

// after returns the arguments after the words of the path of cmd.
func after(cmd *cobra.Command, args []string) []string {
	path := strings.Fields(cmd.CommandPath())[1:]
	for i, word := range path {
		if i >= len(args) || args[i] != word {
			return nil
		}
	}
	return args[len(path):]
}

// parses reports whether cmd accepts the flags of a corrected command line.
func parses(cmd *cobra.Command, args []string) bool {
	if len(args) == 1 && args[0] == "version" {
		return true
	}
	rest := after(cmd, args)
	return rest != nil && cmd.ParseFlags(rest) == nil
}

// correction returns the arguments that a user may mean, after a text; nil if it knows none.
func correction(cmd *cobra.Command, err error, args []string) (text string, corrected []string) {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, e, args)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		text, value := wordFor(e.GetFlag(), e.GetValue())
		return text, replaceValue(args, e.GetFlag(), e.GetValue(), value)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		if value := exampleOf(e.GetFlag()); value != "" {
			return "for example: ", append(slices.Clone(args), value)
		}
	}
	return "", nil
}

// flagWords are the flags that users of other programs may mean: by their name or letter, the flags, or a flag
// with a value.
var flagWords = map[string][]string{
	"label": {"selector"}, "labels": {"selector"}, "duration": {"for", "timeout"}, "time": {"for"}, "until": {"for"}, "expires": {"for"},
	"comment": {"reason"}, "message": {"reason"}, "format": {"output"}, "follow": {"watch"}, "f": {"watch", "filename"}, "live": {"watch"},
	"ns": {"namespace"}, "file": {"filename"}, "host": {"server"}, "address": {"server"}, "url": {"server"}, "agent": {"server"},
	"socket": {"server"}, "timeout": {"request-timeout"}, "from": {"since"}, "start": {"since"}, "after": {"since"}, "to": {"until"}, "end": {"until"},
	"before": {"until"}, "status": {"state"}, "result": {"state"}, "type": {"kind"}, "token": {"token-file"}, "cacert": {"ca-file"}, "ca": {"ca-file"},
	"cert": {"cert-file"}, "key": {"key-file"}, "simulate": {"dry-run"}, "a": {"all", "all-namespaces"}, "verbose": {"log-level=debug"}, "v": {"log-level=debug"},
	"debug": {"log-level=debug"}, "json": {"output=json"}, "yaml": {"output=yaml"}, "wide": {"output=wide"}, "csv": {"output=csv"}, "o": {"output"},
	"s": {"server"}, "t": {"timeout"}, "c": {"config"}, "H": {"header"}, "L": {"selector"}, "data-dir": {"state-dir"}, "plugin-dir": {"plugins"},
	"listen-address": {"listen"}, "port": {"listen"},
}

// unknownFlag corrects a flag that cmd does not have.
func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError, args []string) (text string, corrected []string) {
	name := e.GetSpecifiedName()
	if name == "version" || name == "V" || name == "v" && !cmd.HasParent() {
		return "", []string{"version"}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	old := "--" + name
	near := nearest.Name(name, known)
	if e.GetSpecifiedShortnames() != "" {
		old, near = "-"+e.GetSpecifiedShortnames(), ""
	}
	for _, word := range flagWords[name] {
		flag, value, _ := strings.Cut(word, "=")
		if slices.Contains(known, flag) && (value == "" || slices.Contains(wordsOf(cmd.Flags().Lookup(flag)), value)) {
			near = word
			break
		}
	}
	if near == "" {
		return "", nil
	}
	return fmt.Sprintf("did you mean --%s? ", near), replaceFlag(args, old, "--"+near)
}

// replaceFlag replaces the name of a flag.
func replaceFlag(args []string, old, name string) []string {
	changed := slices.Clone(args)
	for i, a := range changed {
		if rest, ok := strings.CutPrefix(a, old); ok && (rest == "" || rest[0] == '=') {
			changed[i] = name + rest
		}
	}
	return changed
}

// replaceValue replaces the value of a flag; nil if there is no other value.
func replaceValue(args []string, f *pflag.Flag, old, value string) []string {
	if value == "" {
		return nil
	}
	changed := slices.Clone(args)
	for i, a := range changed {
		name, text, ok := strings.Cut(a, "=")
		switch {
		case name != "--"+f.Name && (f.Shorthand == "" || name != "-"+f.Shorthand):
		case ok && text == old && f.Value.Type() == "bool" && value == "true":
			changed[i] = name
		case ok && text == old:
			changed[i] = name + "=" + value
		case !ok && i+1 < len(changed) && changed[i+1] == old:
			changed[i+1] = value
		}
	}
	return changed
}

// valueWords are words for the words of flags.
var valueWords = map[string][]string{
	"ok": {"success"}, "up": {"success", "probed"}, "healthy": {"success"}, "passing": {"success"}, "good": {"success"}, "down": {"failure"}, "failed": {"failure"},
	"failing": {"failure"}, "fail": {"failure"}, "critical": {"failure"}, "error": {"failure", "error"}, "bad": {"failure"}, "unhealthy": {"failure"}, "warn": {"warning", "warn"},
	"silenced": {"paused"}, "live": {"liveness"}, "ready": {"readiness"}, "start": {"startup"}, "yml": {"yaml"}, "text": {"table"}, "plain": {"table"}, "golang": {"go"},
	"removed": {"gone"}, "active": {"probed"}, "verbose": {"debug"}, "warning": {"warn"}, "trace": {"debug"},
}

// wordFor returns the value that a user may mean by a wrong value of a flag, and a text before the command line.
func wordFor(f *pflag.Flag, value string) (text, word string) {
	lower := strings.ToLower(value)
	switch f.Value.Type() {
	case "bool":
		switch {
		case slices.Contains([]string{"yes", "y", "on", "enabled"}, lower):
			return "", "true"
		case slices.Contains([]string{"no", "n", "off", "disabled"}, lower):
			return "", "false"
		}
		return "", ""
	case "duration":
		return "a duration has a unit, such as 10s or 10m: ", durationFor(f, lower)
	}
	known := wordsOf(f)
	for _, w := range append([]string{lower, strings.TrimSuffix(lower, "s")}, valueWords[lower]...) {
		if slices.Contains(known, w) {
			return "", w
		}
	}
	return "", nearest.Name(lower, known)
}

// wordsOf returns the words that a flag takes; nil for other flags.
func wordsOf(f *pflag.Flag) []string {
	if c, ok := f.Value.(interface{ Words() []string }); ok {
		return c.Words()
	}
	return nil
}

// quantity is a number with a unit, as people write it.
var quantity = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{1,5})\s*(s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days|w|week|weeks|)$`)
})

// durationFor returns the duration that a user may mean by a text such as 10, 2d and "5 min"; 10m if it is unknown.
// Timeouts are in seconds.
func durationFor(f *pflag.Flag, text string) string {
	match := quantity().FindStringSubmatch(text)
	if match == nil {
		return "10m"
	}
	number, unit := match[1], cmp.Or(match[2], "m")
	if match[2] == "" && strings.Contains(f.Name, "timeout") {
		unit = "s"
	}
	each := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[unit[0]]
	if unit[0] != 'd' && unit[0] != 'w' {
		return number + unit[:1]
	}
	var n int
	_, _ = fmt.Sscan(number, &n) // it has digits only
	return fmt.Sprintf("%dh", n*int(each/time.Hour))
}

// exampleOf returns a value of a flag that needs one; "" if it knows none.
func exampleOf(f *pflag.Flag) string {
	if words := wordsOf(f); len(words) > 0 {
		return words[0]
	}
	if f.Value.Type() == "duration" {
		return "10m"
	}
	return map[string]string{
		"selector": "app=shop", "namespace": "default", "since": "7d", "until": "1d", "reason": "maintenance", "filename": "pod.yaml", "config": "prober.yaml",
		"server": "127.0.0.1:9876", "handler": "http", "group": "web", "listen": "127.0.0.1:9876", "state-dir": "/var/lib/prober", "plugins": "/etc/prober/plugins",
	}[f.Name]
}
