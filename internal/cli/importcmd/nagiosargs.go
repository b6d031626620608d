package importcmd

import (
	"cmp"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// nagiosArguments turns the arguments of a command of the monitoring-plugins into a probe.
type nagiosArguments struct {
	p     *plan
	at    position
	name  string
	host  string // address of the host
	group *group

	flags  map[string]string
	bad    bool // an argument has no equal
	target string
	config fields
}

// options of getopt: the letters and long names that take a value, and those that take none, as one letter.
type options struct {
	values, switches string            // letters
	long             map[string]string // letters by long name
	host             bool              // an argument without an option is the host
}

// shipped sets the probe of the group if a shipped plugin does the same. It returns false if an argument has no
// equal; then the command runs as it is.
func (c *nagiosArguments) shipped(words []string) bool {
	checks := map[string]struct {
		options options
		set     func()
	}{
		"check_ping": {options{"Hwcpt", "46", map[string]string{"hostname": "H", "warning": "w", "critical": "c", "packets": "p", "timeout": "t"}, false}, c.ping},
		"check_icmp": {options{"Hwcnt", "", nil, true}, c.ping},
		"check_tcp":  {options{"Hpwcte", "46", map[string]string{"hostname": "H", "port": "p", "timeout": "t"}, false}, c.tcp},
		"check_ssh":  {options{"Hpt", "46", map[string]string{"hostname": "H", "port": "p", "timeout": "t"}, true}, c.ssh},
		"check_smtp": {options{"HptD", "S46", map[string]string{"hostname": "H", "port": "p", "timeout": "t", "starttls": "S", "certificate": "D"}, false}, c.smtp},
		"check_dns":  {options{"Hsawct", "", map[string]string{"hostname": "H", "server": "s", "expected-address": "a"}, false}, c.dns},
		"check_http": {options{"HIpuewcstrRjPaCkATf", "SN46E", map[string]string{
			"hostname": "H", "IP-address": "I", "port": "p", "url": "u", "uri": "u", "ssl": "S", "sni": "E", "expect": "e", "string": "s", "regex": "r", "ereg": "r", "eregi": "R", "timeout": "t",
			"warning": "w", "critical": "c", "certificate": "C", "method": "j", "post": "P", "authorization": "a", "header": "k", "useragent": "A", "onredirect": "f", "content-type": "T",
		}, false}, c.http},
	}
	name := path.Base(words[0])
	check, ok := checks[map[string]string{"check_curl": "check_http", "check-host-alive": "check_ping"}[name]]
	if !ok {
		check, ok = checks[name]
	}
	if !ok || !c.parse(check.options, words[1:]) {
		return false
	}
	findings := len(c.p.findings)
	c.target = cmp.Or(c.flags["H"], c.host)
	c.group.probe.timeout = cmp.Or(min(parseSeconds(c.flags["t"]), time.Hour), 10*time.Second)
	if c.has("4") || c.has("6") {
		c.config = c.config.set("preferredIpProtocol", map[bool]string{true: "ip4", false: "ip6"}[c.has("4")]).set("ipProtocolFallback", false)
	}
	check.set()
	if c.bad {
		c.p.forget(findings) // they are about the probe that is not made
		c.group.probe.action, c.group.static = nil, nil
	}
	return !c.bad
}

func (c *nagiosArguments) has(letter string) bool { _, ok := c.flags[letter]; return ok }

// parse reads the arguments. It returns false if one is unknown, or is given twice.
func (c *nagiosArguments) parse(o options, words []string) bool {
	c.flags = make(map[string]string)
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		switch {
		case strings.HasPrefix(w, "--"):
			name = o.long[name]
		case strings.HasPrefix(w, "-") && len(w) > 1:
			name, value, hasValue = w[1:2], w[2:], len(w) > 2
		case o.host && c.flags["H"] == "":
			c.flags["H"] = w
			continue
		default:
			return false
		}
		_, again := c.flags[name]
		takes := strings.Contains(o.values, name)
		switch {
		case name == "" || again || !takes && !strings.Contains(o.switches, name):
			return false
		case takes && !hasValue && i+1 < len(words):
			i++
			value = words[i]
		case takes && !hasValue:
			return false
		}
		c.flags[name] = value
	}
	return true
}

// set sets the action and the target.
func (c *nagiosArguments) set(action fields, target string) {
	c.group.probe.action, c.group.static = action, []string{target}
}

// limits returns the limits of a time in seconds.
func (c *nagiosArguments) limits() fields {
	warn, fail := parseSeconds(c.flags["w"]), parseSeconds(c.flags["c"])
	if warn == 0 && c.flags["w"] != "" || fail == 0 && c.flags["c"] != "" || warn > 0 && fail > 0 && warn > fail {
		c.bad = true
	}
	return fields{}.with("warn", warn).with("fail", fail)
}

// ping sets a probe of the plugin icmp. Limits are such as 100.0,20%.
func (c *nagiosArguments) ping() {
	loss, latency := fields{}, fields{}
	for _, l := range [][2]string{{"w", "warn"}, {"c", "fail"}} {
		if c.flags[l[0]] == "" {
			continue
		}
		rtt, lost, ok := strings.Cut(c.flags[l[0]], ",")
		ms, err := strconv.ParseFloat(strings.TrimSuffix(rtt, "ms"), 64)
		if !ok || err != nil || ms <= 0 || ms > 1e7 || percent(lost) == 0 {
			c.bad = true
			return
		}
		latency = latency.set(l[1], time.Duration(ms*float64(time.Millisecond)))
		loss = loss.set(l[1], percent(lost))
	}
	count, err := strconv.Atoi(cmp.Or(c.flags["p"], c.flags["n"], "5"))
	if err != nil || count < 1 || count > 20 {
		c.bad = true
		return
	}
	c.config = c.config.set("count", count).with("loss", loss).with("latency", latency)
	c.set(plugin("icmp", c.config), c.target)
}

// portOr returns the port of -p.
func (c *nagiosArguments) portOr(without int) int {
	text := c.flags["p"]
	if text == "" {
		return without
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		c.bad = true
	}
	return port
}

func (c *nagiosArguments) tcp() {
	port := c.portOr(0)
	if port == 0 {
		c.bad = true
	}
	if e := c.flags["e"]; e != "" {
		c.config = c.config.set("queryResponse", []fields{{{"expect", regexp.QuoteMeta(e)}}})
	}
	c.config = c.config.with("latency", c.limits())
	action := tcp()
	if len(c.config) > 0 {
		action = plugin("expect", c.config)
	}
	c.set(action, hostPort(c.target, port))
}

func (c *nagiosArguments) ssh() {
	c.set(c.p.service(&service{plugin: "ssh", at: c.at, config: c.config}), hostPort(c.target, c.portOr(22)))
}

func (c *nagiosArguments) smtp() {
	if c.has("D") {
		c.certificate(c.flags["D"])
		if !c.has("S") {
			c.bad = true
		}
	}
	s := &service{plugin: "smtp", at: c.at, startTLS: c.has("S"), isInsecure: true, config: c.config}
	c.set(c.p.service(s), hostPort(c.target, c.portOr(25)))
}

// certificate sets the limits of the age of certificates in days, such as 30,7.
func (c *nagiosArguments) certificate(text string) {
	warn, fail, _ := strings.Cut(text, ",")
	f := fields{}
	for _, l := range [][2]string{{"warn", warn}, {"fail", fail}} {
		days, err := strconv.Atoi(l[1])
		switch {
		case l[1] == "":
		case err != nil || days < 0 || days > 10000:
			c.bad = true
		default:
			f = f.with(l[0], time.Duration(days)*24*time.Hour)
		}
	}
	c.config = c.config.with("certificateAge", f)
}

func (c *nagiosArguments) dns() {
	server := c.flags["s"]
	if server == "" || !c.has("H") { // it asks the name server of the host
		c.bad = true
		return
	}
	if a := c.flags["a"]; a != "" {
		var patterns []string
		for data := range strings.SplitSeq(a, ",") {
			patterns = append(patterns, answer(strings.TrimSpace(data)))
		}
		c.config = c.config.set("validateAnswerRrs", fields{{"failIfNoneMatchesRegexp", patterns}})
	}
	c.config = c.config.with("latency", c.limits())
	check := dnsCheck{name: c.flags["H"], kind: "A", config: c.config}
	c.set(check.action(), server)
}
