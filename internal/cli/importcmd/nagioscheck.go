package importcmd

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/handlers/shipped"
)

// check sets the probe and the target of a group by a check_command.
func (n *nagios) check(d *definition, h *nagiosHost, line string, g *group) {
	parts := splitCommand(line)
	at := d.at("check_command")
	command := n.commands[parts[0]]
	if command == nil {
		n.p.noEqual(at, "it is not imported: there is no command %.60q", parts[0])
		return
	}
	template := textOf(command.n, "command_line")
	x := &expansion{nagios: n, d: d, h: h, args: parts[1:]}
	line, ok := x.line(template)
	if !ok {
		n.p.noEqual(at, "it is not imported: the command %.60q is longer than %d bytes", parts[0], maxCommandLine)
		return
	}
	words, ok := splitShell(line)
	if !ok || len(words) == 0 {
		n.p.noEqual(at, "it is not imported: the command %.60q needs a shell", parts[0])
		return
	}
	if unknown := macro().FindString(strings.Join(words, " ")); unknown != "" {
		n.p.noEqual(at, "it is not imported: the value of %.40s is not known: name the file that sets it", unknown)
		return
	}
	c := &nagiosArguments{p: n.p, at: at, name: g.name, host: h.address, group: g}
	if c.shipped(words) {
		if x.isIn(g) {
			n.p.noEqual(at, "it is not imported: the value of a macro may be a password")
			g.probe.action, g.static = nil, nil
		}
		return
	}
	hasSecret := commandHasSecret(words) || len(x.secrets) > 0
	if n.p.withPlugins && !hasSecret && n.plugin(parts, template, words, h, g) {
		return
	}
	if !path.IsAbs(words[0]) {
		n.p.noEqual(at, "it is not imported: the command %.60q has no absolute path", words[0])
		return
	}
	if hasSecret {
		n.p.noEqual(at, "it is not imported: the arguments of the command have a password: see docs/plugins/make-a-nagios-check-a-plugin.md")
		return
	}
	why := "use --plugins"
	if n.p.withPlugins {
		why = "--plugins needs the command on this host"
	}
	n.p.differs(at, "%s runs as an exec probe, for which a WARNING is a failure: %s", path.Base(words[0]), why)
	g.probe.action, g.static, g.module = execAction(words), []string{h.address}, ""
}

// splitCommand splits command!argument!argument.
func splitCommand(line string) []string {
	parts := strings.Split(strings.ReplaceAll(line, `\!`, "\x01"), "!")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x01", "!")
	}
	return parts
}

// macro matches a macro such as $USER1$ or $_HOSTPORT$.
var macro = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_:]*\$`) })

// expansion replaces the macros of a command line, also those in arguments. Macros that are not known stay.
type expansion struct {
	*nagios
	d       *definition
	h       *nagiosHost
	args    []string
	secrets []string // values of macros that may be passwords
	size    int      // bytes of the values
}

// maxCommandLine is the limit of a command line with the values of its macros, in bytes.
const maxCommandLine = 64 << 10

// line returns a command line. ok is false if it is too long.
func (x *expansion) line(template string) (line string, ok bool) {
	for _, withArguments := range []bool{true, false} {
		x.size = len(template)
		template = macro().ReplaceAllStringFunc(template, func(found string) string {
			value := x.value(found, withArguments)
			if x.size += len(value); x.size > maxCommandLine {
				return ""
			}
			return value
		})
		if x.size > maxCommandLine {
			return "", false
		}
	}
	return strings.ReplaceAll(template, "$$", "$"), true
}

// value returns the value of a macro such as $ARG1$, or the macro.
func (x *expansion) value(found string, withArguments bool) string {
	name := strings.Trim(found, "$")
	if number, ok := strings.CutPrefix(name, "ARG"); ok && withArguments {
		i, err := strconv.Atoi(number)
		if err != nil || i < 1 || i > len(x.args) {
			return ""
		}
		return x.args[i-1]
	}
	value, ok := x.macro(name, x.d, x.h)
	if !ok {
		return found
	}
	if isSecretMacro(name, value) {
		x.secrets = append(x.secrets, value)
	}
	return value
}

// isSecretMacro reports whether the value of a macro may be a password: one of resource.cfg that is not a
// path, or a custom variable that is neither a path nor a number.
func isSecretMacro(name, value string) bool {
	isCustom := strings.HasPrefix(name, "_")
	switch {
	case value == "" || path.IsAbs(value) || !isCustom && !strings.HasPrefix(name, "USER"):
		return false
	case isCustom && isNumber().MatchString(value):
		return isSecretName(strings.ToLower(name))
	}
	return true
}

// isNumber matches a number, with a unit or as a range of a Nagios plugin.
var isNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[@~]?[0-9.:,]+(%|ms|s|[KMGT]B?)?$`) })

// isIn reports whether the probe or the target of a group has a value that may be a password.
func (x *expansion) isIn(g *group) bool {
	for text := range texts(g.probe.action.set("target", g.static)) {
		if slices.ContainsFunc(x.secrets, func(s string) bool { return strings.Contains(text, s) || strings.Contains(text, regexp.QuoteMeta(s)) }) {
			return true
		}
	}
	return false
}

// macro returns the value of a macro.
func (n *nagios) macro(name string, d *definition, h *nagiosHost) (string, bool) {
	switch name {
	case "HOSTADDRESS":
		return h.address, true
	case "HOSTNAME":
		return h.name, true
	case "HOSTALIAS":
		return cmp.Or(textOf(h.n, "alias"), h.name), true
	case "SERVICEDESC":
		return textOf(d.n, "service_description"), true
	}
	if value, ok := n.macros[name]; ok {
		return value, true
	}
	for prefix, of := range map[string]*definition{"_HOST": h.definition, "_SERVICE": d} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		for i := 0; i+1 < len(of.n.Content); i += 2 {
			if key := of.n.Content[i].Value; strings.EqualFold(key, "_"+rest) {
				of.used[key] = true
				return of.n.Content[i+1].Value, true
			}
		}
	}
	return "", false
}

// plugin makes a probe by a Nagios plugin, and its manifest. It returns false if the command cannot be one, or
// is not on this host.
func (n *nagios) plugin(parts []string, template string, words []string, h *nagiosHost, g *group) bool {
	if info, err := os.Stat(words[0]); err != nil || info.IsDir() || !path.IsAbs(words[0]) || hasControl(strings.Join(words, " ")) {
		return false
	}
	args := slices.Clone(words[1:])
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "{{") }) {
		return false
	}
	for i := range args {
		if args[i] == h.address && strings.Contains(template, "$HOSTADDRESS$") {
			args[i] = "{{target.host}}"
		}
	}
	key := strings.Join(append([]string{words[0]}, args...), "\x00")
	name := n.written[key]
	if name == "" {
		name = n.p.uniqueIn(parts[0], "check", func(name string) bool {
			return n.p.manifests[name] != nil || slices.Contains([]string{"exec", "grpc", "http", "tcp"}, name) || slices.Contains(shipped.Names(), name)
		})
		n.written[key] = name
		n.p.manifests[name] = manifest(name, append([]string{filepath.Base(words[0])}, args...))
		n.p.folders[path.Dir(words[0])] = true
	}
	g.probe.action, g.static = plugin(name, nil), []string{h.address}
	return true
}

// manifest returns the plugin.yaml of a command.
func manifest(name string, command []string) []byte {
	f := fields{{"apiVersion", "prober.dev/v1"}, {"kind", "Plugin"}, {"name", name}, {"version", "1.0.0"}, {"runtime", "nagios"}, {"command", command}}
	n := node(f)
	n.Style = 0
	text, err := yaml.Marshal(n)
	if err != nil {
		return fmt.Appendf(nil, "# %v\n", err) // strings can be encoded
	}
	return text
}
