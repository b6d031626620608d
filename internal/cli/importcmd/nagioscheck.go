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
	words, ok := splitShell(n.expand(template, d, h, parts[1:]))
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
		return
	}
	if n.p.withPlugins && n.plugin(parts, template, words, h, g) {
		return
	}
	if !path.IsAbs(words[0]) {
		n.p.noEqual(at, "it is not imported: the command %.60q has no absolute path", words[0])
		return
	}
	if n.hasSecret(words, template) {
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

// secretOptions has the options with passwords of commands, which have no long name.
var secretOptions = map[string]string{
	"check_http": "ab", "check_curl": "ab", "check_mysql": "p", "check_mysql_query": "p", "check_pgsql": "p", "check_ldap": "P", "check_ldaps": "P", "check_radius": "p", "check_snmp": "CAX",
}

// hasSecret reports whether a command line may have a password: by its options, or by a macro of
// resource.cfg that is not a path.
func (n *nagios) hasSecret(words []string, template string) bool {
	for i, w := range words[1:] {
		isOption := strings.HasPrefix(w, "--") && secretInText().MatchString(w)
		if !isOption && len(w) > 1 && w[0] == '-' && w[1] != '-' {
			isOption = strings.Contains(secretOptions[path.Base(words[0])], w[1:2])
		}
		if isOption && (strings.Contains(w, "=") || len(w) > 2 && w[1] != '-' || i+2 < len(words)) {
			return true
		}
	}
	for name, value := range n.macros {
		if value != "" && !path.IsAbs(value) && strings.Contains(template, "$"+name+"$") {
			return true
		}
	}
	return false
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

// expand replaces the macros of a command line, also those in arguments. Macros that are not known stay.
func (n *nagios) expand(line string, d *definition, h *nagiosHost, args []string) string {
	once := func(line string, withArguments bool) string {
		return macro().ReplaceAllStringFunc(line, func(found string) string {
			name := strings.Trim(found, "$")
			if number, ok := strings.CutPrefix(name, "ARG"); ok && withArguments {
				i, err := strconv.Atoi(number)
				if err != nil || i < 1 || i > len(args) {
					return ""
				}
				return args[i-1]
			}
			if value, ok := n.macro(name, d, h); ok {
				return value
			}
			return found
		})
	}
	return strings.ReplaceAll(once(once(line, true), false), "$$", "$")
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
	if info, err := os.Stat(words[0]); err != nil || info.IsDir() || !path.IsAbs(words[0]) || hasControl(strings.Join(words, " ")) || n.hasSecret(words, template) {
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
			return n.p.manifests[name] != nil || slices.Contains([]string{"dns", "expect", "httpcheck", "icmp", "exec", "grpc", "http", "tcp"}, name)
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
