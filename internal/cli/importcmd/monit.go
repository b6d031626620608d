package importcmd

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// monit imports control files of monit.
type monit struct {
	p         *plan
	cycle     time.Duration
	delay     time.Duration
	server    mailer // without addresses
	from      string
	receivers map[string]string // names by address
	global    []string          // receivers of all checks
	groupsOf  map[string][]string
	depends   []monitDependency
}

// monitDependency is a check that depends on another one.
type monitDependency struct {
	at     position
	groups []*group
	on     string
}

func readMonit(p *plan, files []input) error {
	m := &monit{p: p, cycle: 30 * time.Second, from: "monit@localhost", receivers: make(map[string]string), groupsOf: make(map[string][]string)}
	m.server = mailer{host: localhost, port: 25, tls: "none"}
	var all []*statement
	for _, in := range files {
		statements, err := monitStatements(in)
		if err != nil {
			return err
		}
		all = append(all, statements...)
	}
	for _, want := range []func(*statement){m.set, m.alertAll, m.check} {
		for _, s := range all {
			want(s)
		}
	}
	for _, d := range m.depends {
		names := m.groupsOf[d.on]
		if len(names) == 0 || len(d.groups) == 0 {
			p.noEqual(d.at, "the dependency on %.40s is not imported: one of them has no probe", d.on)
			continue
		}
		for _, g := range d.groups {
			if !p.pay(d.at, names...) {
				return nil
			}
			g.dependsOn = append(g.dependsOn, names...)
		}
	}
	return nil
}

// set reads a statement that begins with set or include, without set alert.
func (m *monit) set(s *statement) {
	r := &monitReader{s: s}
	at := r.at()
	if r.take("include") {
		m.p.report(ignored, at, "name the files on the command line")
		return
	}
	if !r.take("set") {
		return
	}
	switch what := r.next(); {
	case what.is("alert"):
	case what.is("daemon"):
		if d := parseSeconds(r.next().text); d > 0 {
			m.cycle = min(d, maxDuration)
		}
		if r.take("start") && r.take("delay") {
			m.delay = min(parseSeconds(r.next().text), maxDuration)
		}
	case what.is("mailserver"):
		m.mailServer(r)
	case what.is("mail-format"):
		if found := mailFrom().FindStringSubmatch(r.next().text); found != nil {
			m.from = found[1]
		}
		m.p.report(ignored, at, "prober writes its own messages")
	case what.is("httpd"):
		m.p.noEqual(at, "set it with flags of prober run: --listen, --web.config.file")
	case what.is("mmonit"):
		m.p.noEqual(at, "there is no M/Monit: Prometheus and Grafana show several hosts")
	case what.is("log", "logfile", "pidfile", "idfile", "statefile", "eventqueue", "limits", "ssl", "tls", "terminal", "onreboot", "fips", "init"):
		m.p.report(ignored, at, "it does not change what is probed")
	default:
		m.p.noEqual(at, "the statement is unknown, or has no equal")
	}
}

var mailFrom = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?mi)^\s*from:\s*(?:.*<)?([^\s<>]+@[^\s<>]+)`) })

// mailServer reads the first mail server.
func (m *monit) mailServer(r *monitReader) {
	s := mailer{at: r.at(), host: r.next().text, port: 25, tls: "none"}
	for !r.ended() {
		switch {
		case r.take("port"):
			s.port, _ = strconv.Atoi(r.next().text) // mail reports 0
		case r.take("username"):
			s.user = r.next().text
		case r.take("password"):
			s.password = r.next().text
		case r.take("ssl", "tls", "sslv2", "sslv3", "sslauto", "tlsv1", "tlsv11", "tlsv12", "tlsv13", "auto"):
			s.tls = ""
		case r.take("timeout"):
			r.next()
			r.take("seconds", "second")
		default:
			m.p.noEqual(r.at(), "%.40q of a mail server is not imported", r.next().text)
		}
	}
	if s.tls == "" && s.port == 465 {
		s.tls = "tls"
	}
	m.server = s
}

// alertAll reads set alert.
func (m *monit) alertAll(s *statement) {
	r := &monitReader{s: s}
	if r.take("set") && r.take("alert") {
		m.global = union(m.global, m.alert(r))
	}
}

// union returns the names of receivers in a or b.
func union(a, b []string) []string {
	for _, name := range b {
		if !slices.Contains(a, name) {
			a = append(a, name)
		}
	}
	return a
}

// alert returns the receiver of an address.
func (m *monit) alert(r *monitReader) []string {
	at, address := r.at(), r.next().text
	r.take("not")
	for r.peek().quoted || r.take("mail-format") {
		r.next()
		m.p.noEqual(at, "a receiver selects probes and states, no events")
	}
	if r.take("reminder") {
		r.next()
		r.take("cycles", "cycle")
		m.p.noEqual(at, "set repeatInterval of the receiver")
	}
	if name := m.receivers[address]; name != "" {
		return []string{name}
	}
	server := m.server
	server.at, server.name, server.to, server.from = at, "mail", []string{address}, m.from
	f := m.p.mail(&server)
	m.server.passwordFile = server.passwordFile
	if f == nil {
		return nil
	}
	m.receivers[address] = m.p.addReceiver(at, strings.ReplaceAll(address, "@", "-at-"), f)
	return []string{m.receivers[address]}
}

// monitCheck is a check of a service.
type monitCheck struct {
	*monit
	kind    string
	name    string
	place   string // address, path or interface
	by      string // of a process: the field of the plugin host for place
	exists  bool   // a test implies that the process or file exists
	at      position
	timeout time.Duration // of a program
	every   int           // cycles
	alerts  []string
	labels  map[string]string
	groups  []*group
	depends []string
}

// check reads a check.
func (m *monit) check(s *statement) {
	r := &monitReader{s: s}
	at := r.at()
	if !r.take("check") {
		return
	}
	c := &monitCheck{monit: m, kind: strings.ToLower(r.next().text), at: at, every: 1, timeout: 5 * time.Minute, labels: make(map[string]string)}
	c.name = r.next().text
	c.alerts = slices.Clone(m.global)
	c.head(r)
	for !r.ended() {
		c.part(r)
	}
	c.existence()
	if len(c.groups) == 0 {
		m.p.noEqual(at, "the check %.60s is not imported: see docs/migration/monit.md", c.name)
	}
	for _, g := range c.groups {
		if len(c.groups) == 1 {
			g.name = c.name
		}
		g.probe.period, g.labels, g.alerts = min(m.cycle*time.Duration(min(c.every, 10_000)), maxDuration), c.labels, c.alerts
		g.probe.initialDelay = m.delay
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *group) bool { return m.p.addGroup(g) == nil })
	for _, g := range c.groups {
		m.groupsOf[c.name] = append(m.groupsOf[c.name], g.name)
	}
	slices.Sort(c.depends)
	for _, on := range slices.Compact(c.depends) {
		m.depends = append(m.depends, monitDependency{at, c.groups, on})
	}
}

// head reads the place of a check.
func (c *monitCheck) head(r *monitReader) {
	c.by = "cmdline"
	switch {
	case r.take("pidfile"):
		c.place, c.by = r.next().text, "pidfile"
	case r.take("address", "path", "interface", "matching", "match"):
		c.place = r.next().text
	case c.kind == "system":
	default:
		c.place = c.name
	}
	if c.kind != "program" {
		return
	}
	for r.take("as", "uid", "gid") {
		if !r.peek().is("uid", "gid") {
			c.p.noEqual(r.at(), "a command runs as the user of prober")
			r.next()
		}
	}
	if r.take("timeout") {
		c.timeout = cmp.Or(parseSeconds(r.next().text), c.timeout)
		r.take("seconds", "second")
	}
}

// part reads one part of a check, such as a test.
func (c *monitCheck) part(r *monitReader) {
	at, t := r.at(), r.next()
	switch {
	case t.is("if"):
		c.test(r)
	case t.is("start", "stop", "restart"):
		r.take("program")
		r.value()
		c.p.noEqual(at, "prober starts no program of a check: a pod runs one")
		for r.take("as", "uid", "gid", "timeout") {
			if !r.peek().is("uid", "gid") {
				r.next()
			}
			r.take("seconds", "second")
		}
	case t.is("depends", "depend"):
		for !r.ended() && !r.peek().is(monitWords...) {
			c.depends = append(c.depends, r.next().text)
		}
	case t.is("every"):
		c.cycles(r, at)
	case t.is("not"):
		r.take("every")
		r.next()
		c.p.noEqual(at, "there is no schedule of probes: run prober pause by cron")
	case t.is("group"):
		c.labels["group"] = r.next().text
	case t.is("alert"):
		c.alerts = union(c.alerts, c.alert(r))
	case t.is("noalert"):
		name := c.receivers[r.next().text]
		c.alerts = slices.DeleteFunc(c.alerts, func(n string) bool { return n == name })
	case t.is("mode", "onreboot"):
		r.next()
		c.p.report(ignored, at, "prober restarts nothing")
	default:
		c.p.noEqual(at, "%.40q has no equal", t.text)
		for !r.ended() && !r.peek().is(monitWords...) {
			r.next()
		}
	}
}

// monitWords begin a part of a check.
var monitWords = []string{"if", "start", "stop", "restart", "depends", "depend", "every", "not", "group", "alert", "noalert", "mode", "onreboot"}

// cycles reads every.
func (c *monitCheck) cycles(r *monitReader, at position) {
	t := r.next()
	n, err := strconv.Atoi(t.text)
	if err != nil || n < 1 {
		c.p.noEqual(at, "there is no schedule of probes: run prober pause by cron")
		return
	}
	c.every = n
	r.take("cycles", "cycle")
}

// action reads what follows a test. Only messages have an equal.
func (c *monitCheck) action(r *monitReader) {
	at, t := r.at(), r.next()
	if t.is("exec") {
		r.next()
		for r.take("as", "uid", "gid") {
			if !r.peek().is("uid", "gid") {
				r.next()
			}
		}
		c.p.noEqual(at, "exec of a receiver runs a command")
	} else if !t.is("alert") {
		c.p.noEqual(at, "nothing is done by %.20s: prober notifies", t.text)
	}
	if r.take("repeat") {
		r.take("every")
		r.next()
		r.take("cycles", "cycle")
		c.p.noEqual(at, "set repeatInterval of the receiver")
	}
	if !r.take("else") {
		return
	}
	if r.take("if") {
		for !r.ended() && !r.take("then") {
			r.next()
		}
	}
	c.action(r)
}

// add adds a group. part tells it from others of the check.
func (c *monitCheck) add(at position, part string, probe spec, target string) {
	probe.failureLimit = max(probe.failureLimit, 1)
	c.groups = append(c.groups, &group{entry: entry{at: at}, name: c.name + "-" + part, probe: probe, static: []string{target}})
}

// program is the test of the exit code of a program.
func (c *monitCheck) program(at position, failures int) {
	words, ok := splitShell(c.place)
	if !ok || len(words) == 0 || !path.IsAbs(words[0]) {
		c.p.noEqual(at, "the command needs an absolute path and no shell")
		return
	}
	if commandHasSecret(words) {
		c.p.noEqual(at, "the arguments of the command may have a password")
		return
	}
	c.add(at, "status", spec{action: execAction(words), timeout: min(c.timeout, time.Hour), failureLimit: failures}, localhost)
}

// link is the test of a network interface.
func (c *monitCheck) link(at position, failures int) {
	if !interfaceName().MatchString(c.place) {
		c.p.noEqual(at, "the interface must have a name")
		return
	}
	c.add(at, "link", spec{action: execAction([]string{"grep", "-qx", "up", "/sys/class/net/" + c.place + "/operstate"}), timeout: 5 * time.Second, failureLimit: failures}, localhost)
}

var interfaceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}$`) })
