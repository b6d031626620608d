package importcmd

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/address"
)

// plan is what an importer has read: the entries of prober.yaml, and findings. Its methods keep names unique
// and valid, and secrets out of the entries.
type plan struct {
	withPlugins bool // manifests of Nagios plugins may be written
	withSecrets bool // files with secrets are written

	values     map[string]string // secrets, by the paths of their files
	valuesSize int               // their length together, in bytes

	groups      []*group
	modules     []*module
	pushes      []*push
	endpoints   []*composite
	receivers   []*receiver
	windows     []*window
	credentials []*credential
	uplink      []string
	grants      map[string][]string // by plugin
	folders     map[string]bool     // of Nagios commands
	manifests   map[string][]byte   // plugin.yaml of Nagios plugins, by name

	starts   []int // lines of the top-level fields in the written prober.yaml
	findings []Finding
	reported map[kind]int
	omitted  int // findings above maxFindings
	size     int // bytes of the entries

	names       map[string]bool // of groups, pushes and endpoints
	numbers     map[string]int  // last numbers that were appended to names
	moduleOf    map[string]*module
	moduleNames map[string]bool
	secrets     map[string]bool // patterns of secrets.allow
	references  map[string]bool // references to secrets that this package has made
	files       map[string]bool // names of files with secrets

	credentialNames map[string]bool
	windowNames     map[string]bool
}

// maxFindings, of each kind, maxEntries and maxSize, in bytes, bound what a hostile file can ask for.
const (
	maxFindings = 20_000
	maxEntries  = 20_000
	maxSize     = 64 << 20
)

func newPlan() *plan {
	return &plan{
		values:   make(map[string]string),
		reported: make(map[kind]int), grants: make(map[string][]string), folders: make(map[string]bool), manifests: make(map[string][]byte), names: make(map[string]bool),
		numbers: make(map[string]int), moduleOf: make(map[string]*module), moduleNames: make(map[string]bool), secrets: make(map[string]bool), references: make(map[string]bool), files: make(map[string]bool),
		credentialNames: make(map[string]bool), windowNames: make(map[string]bool),
	}
}

// position is the place of a value in an input.
type position struct {
	file string
	line int
	path string // of the field
}

// kind is the kind of a [Finding].
type kind string

const (
	noEqual kind = "no equal" // prober.yaml does not have it
	differs kind = "differs"  // prober.yaml has it, with another meaning
	ignored kind = "ignored"  // it has no meaning for probes
	secret  kind = "secret"   // a value that the user must put into a file
)

// Finding is something in an input that prober.yaml does not have in the same way.
type Finding struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Field string `json:"field,omitempty"`
	Kind  kind   `json:"kind"`
	Text  string `json:"text"`
}

func (p *plan) report(k kind, at position, format string, args ...any) {
	if p.reported[k] == maxFindings {
		p.omitted++
		return
	}
	p.reported[k]++
	p.findings = append(p.findings, Finding{at.file, max(at.line, 1), at.path, k, fmt.Sprintf(format, args...)})
}

// forget removes the findings after the first n.
func (p *plan) forget(n int) {
	for _, f := range p.findings[n:] {
		p.reported[f.Kind]--
	}
	p.findings = p.findings[:n]
}

func (p *plan) noEqual(at position, format string, args ...any) {
	p.report(noEqual, at, format, args...)
}
func (p *plan) differs(at position, format string, args ...any) {
	p.report(differs, at, format, args...)
}

// entry is what all entries of prober.yaml have.
type entry struct {
	at      position
	dropped bool
	line    int // in the written prober.yaml
}

// group is a group of targets.
type group struct {
	entry
	name, namespace string
	module          string // name under which groups may share the probe; "": its own probe
	moduleAt        position
	probe           spec
	labels          map[string]string
	static, files   []string
	http, dns       []fields
	dependsOn       []string // names of other groups
	alerts          []string // names of receivers

	shared *module // set by the plan
}

// module is a probe with a name.
type module struct {
	entry
	name  string
	probe spec
}

// push is a check that others report to.
type push struct {
	entry
	name, namespace string
	labels          map[string]string
	rest            fields // such as ttl
	alerts          []string
}

// composite is an endpoint, all of whose checks must pass.
type composite struct {
	entry
	name, namespace string
	all             []string
	alerts          []string // names of receivers
}

// credential is an entry of credentials.
type credential struct {
	entry
	rest fields
}

// receiver is a receiver of notifications.
type receiver struct {
	entry
	name string
	rest fields // its kind, such as webhook, and its intervals

	reminds bool          // repeat is set
	mixed   bool          // alerts have different times, which is reported
	repeat  time.Duration // after which messages are repeated; 0 for never
}

// spec is a probe.
type spec struct {
	action                         fields // one of httpGet, tcpSocket, grpc, exec and plugin
	initialDelay, period, timeout  time.Duration
	unhealthyPeriod                time.Duration
	successThreshold, failureLimit int
	warningAsFailure, paused       bool
}

func (s *spec) fields() fields {
	f := slices.Clone(s.action)
	f = f.with("initialDelay", s.initialDelay).with("period", clampPeriod(s.period)).with("timeout", clampPeriod(s.timeout))
	if s.unhealthyPeriod > 0 && s.unhealthyPeriod != s.period {
		f = f.with("unhealthyPeriod", clampPeriod(s.unhealthyPeriod))
	}
	f = f.with("successThreshold", clampCount(s.successThreshold)).with("failureThreshold", clampCount(s.failureLimit))
	if s.warningAsFailure {
		f = f.with("warningAs", "failure")
	}
	return f.with("paused", s.paused)
}

// clampPeriod returns d within the limits of prober; 0 stays 0, for the default.
func clampPeriod(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return min(max(d, 10*time.Millisecond), maxDuration)
}

const maxDuration = 24 * time.Hour

func clampCount(n int) int { return min(max(n, 0), 1<<30) }

// addGroup adds g, and chooses its name. It leaves out addresses that prober refuses. It returns nil if nothing is
// left.
func (p *plan) addGroup(g *group) *group {
	if p.full(g.at) || !p.payGroup(g) || !p.onlyOwnReferences(g.at, g.probe.action) {
		return nil
	}
	slices.Sort(g.alerts)
	g.alerts = slices.Compact(g.alerts)
	var ok bool
	if g.probe.action, ok = p.guarded(g.at, g.name, g.probe.action); !ok {
		return nil
	}
	g.http = slices.DeleteFunc(g.http, func(list fields) bool {
		address, _ := list.get("url").(string)
		if urlHasSecret(address) || assignsSecret(address) {
			p.noEqual(g.at, "the list of targets is not imported: its URL cannot have a secret: use bearerTokenFile")
			return true
		}
		return false
	})
	seen := make(map[string]bool)
	g.static = slices.DeleteFunc(g.static, func(text string) bool {
		if seen[text] {
			p.report(ignored, g.at, "an address is there twice")
			return true
		}
		seen[text] = true
		return !p.isAddress(g.at, text)
	})
	if len(g.static)+len(g.files)+len(g.http)+len(g.dns) == 0 {
		return nil
	}
	p.keepPorts(g)
	g.name, g.namespace = p.unique(g.name, "target"), namespace(g.namespace)
	g.labels = p.checkedLabels(g.at, g.labels)
	if g.module != "" {
		at := g.moduleAt
		if at.file == "" {
			at = g.at
		}
		g.shared = p.addModule(g.module, g.probe, at)
	}
	p.groups = append(p.groups, g)
	return g
}

// keepPorts removes the port of the target of a plugin if an address has another one, since the port of a probe
// takes precedence over the address. Addresses without a port get it.
func (p *plan) keepPorts(g *group) {
	body, _ := g.probe.action.get("plugin").(fields)
	target, _ := body.get("target").(fields)
	port, _ := target.get("port").(int)
	if port == 0 {
		return
	}
	if len(g.files)+len(g.http)+len(g.dns) > 0 {
		p.differs(g.at, "addresses of lists are asked at port %d, also those with another port", port)
		return
	}
	other := func(text string) bool {
		a, err := address.Parse(text)
		return err == nil && a.Port != 0 && a.Port != port
	}
	if !slices.ContainsFunc(g.static, other) {
		return
	}
	for i, text := range g.static {
		if a, err := address.Parse(text); err == nil && a.Port == 0 && a.Scheme == "" {
			g.static[i] = hostPort(text, port)
		}
	}
	body = slices.DeleteFunc(slices.Clone(body), func(f field) bool { return f.key == "target" })
	g.probe.action = fields{{"plugin", body}}
}

func (p *plan) full(at position) bool {
	switch {
	case len(p.groups)+len(p.pushes)+len(p.modules)+len(p.endpoints) >= maxEntries:
		p.noEqual(at, "there are more than %d entries", maxEntries)
	case p.size > maxSize:
		p.noEqual(at, "the entries have more than %d MiB", maxSize>>20)
	default:
		return false
	}
	return true
}

// pay adds the size of texts that are copied. It reports whether there is room for them.
func (p *plan) pay(at position, all ...string) bool {
	for _, text := range all {
		p.size += len(text) + 16 // a string has a header
	}
	return !p.full(at)
}

// payGroup adds the size of a group.
func (p *plan) payGroup(g *group) bool {
	for text := range texts(g.probe.action) {
		p.size += len(text)
	}
	for name, value := range g.labels {
		p.size += len(name) + len(value)
	}
	return p.pay(g.at, g.static...)
}

// isAddress reports whether prober accepts an address, and reports one that it does not.
func (p *plan) isAddress(at position, text string) bool {
	a, err := address.Parse(text)
	if err == nil {
		_, err = a.PodHost()
	}
	switch {
	case err != nil:
		p.noEqual(at, "the target is not imported: %v", err)
	case reference().MatchString(text) || strings.Contains(text, "${"):
		p.noEqual(at, "the target is not imported: an address cannot refer to a secret")
	case urlHasSecret(text):
		p.noEqual(at, "the target is not imported: an address cannot have a password")
	default:
		return true
	}
	return false
}

var reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(?:file|env):[^}]+\}`) })

// onlyOwnReferences reports whether no text of the input in the fields looks like a reference to a secret.
func (p *plan) onlyOwnReferences(at position, f fields) bool {
	for text := range texts(f) {
		for _, r := range reference().FindAllString(text, -1) {
			if !p.references[r] {
				p.noEqual(at, "it is not imported: prober would read %.80q as a reference to a secret", r)
				return false
			}
		}
	}
	return true
}

// addModule returns the module with a name and a probe. If the name has another probe, the module gets a
// number.
func (p *plan) addModule(name string, probe spec, at position) *module {
	name = moduleName(name)
	key := name + "\x00" + string(renderJSON(probe.fields()))
	if m := p.moduleOf[key]; m != nil {
		return m
	}
	numbered := name
	for p.moduleNames[numbered] {
		p.numbers[name]++
		numbered = name + "-" + strconv.Itoa(p.numbers[name]+1)
	}
	m := &module{entry: entry{at: at}, name: numbered, probe: probe}
	p.moduleOf[key], p.moduleNames[numbered], p.modules = m, true, append(p.modules, m)
	return m
}

// addPush adds a push, and chooses its name.
func (p *plan) addPush(c *push) {
	if p.full(c.at) {
		return
	}
	c.name, c.namespace, c.labels = p.unique(c.name, "push"), namespace(c.namespace), p.checkedLabels(c.at, c.labels)
	p.pushes = append(p.pushes, c)
}

// addEndpoint adds an endpoint, and chooses its name.
func (p *plan) addEndpoint(c *composite) {
	if p.full(c.at) {
		return
	}
	c.name, c.namespace = p.unique(c.name, "endpoint"), namespace(c.namespace)
	p.endpoints = append(p.endpoints, c)
}

// addReceiver adds a receiver, and returns its name; "" if there are too many.
func (p *plan) addReceiver(at position, name string, f fields) string {
	if len(p.receivers) == maxReceivers {
		p.noEqual(at, "the receiver is not imported: there are more than %d", maxReceivers)
		return ""
	}
	for _, kind := range f {
		if body, ok := kind.value.(fields); ok && fieldsHaveSecret(body) {
			p.noEqual(at, "the receiver is not imported: it may have a secret")
			return ""
		}
	}
	name = p.uniqueIn(name, "receiver", func(name string) bool {
		return slices.ContainsFunc(p.receivers, func(r *receiver) bool { return r.name == name })
	})
	p.receivers = append(p.receivers, &receiver{entry: entry{at: at}, name: name, rest: f})
	return name
}

// maxReceivers is the limit of the receivers of prober.yaml.
const maxReceivers = 50

// addCredentials adds credentials for TLS, and returns their name.
func (p *plan) addCredentials(at position, name, plugin string, f fields) string {
	name = p.uniqueIn(name, "tls", func(name string) bool {
		return p.credentialNames[name]
	})
	p.credentialNames[name] = true
	f = append(fields{{"name", name}}, f...)
	p.credentials = append(p.credentials, &credential{entry{at: at}, f.with("plugins", []string{plugin})})
	return name
}

// follow lets a plugin follow redirects to any host.
func (p *plan) follow(plugin string) {
	p.grant(plugin, "http://*:*", "https://*:*")
}

// grant adds grants of a plugin.
func (p *plan) grant(plugin string, grants ...string) {
	for _, g := range grants {
		if !slices.Contains(p.grants[plugin], g) {
			p.grants[plugin] = append(p.grants[plugin], g)
		}
	}
}

// secretFile returns the path of a new file for a secret, and reports what belongs there. value is what the command
// may write; "" if the input does not have it.
func (p *plan) secretFile(at position, name, what, value string) string {
	name = p.uniqueIn(name, "secret", func(name string) bool { return p.files[name] })
	p.files[name] = true
	path := secretsFolder + "/" + name
	if p.withSecrets && value != "" && !strings.Contains(value, "$") && p.valuesSize+len(value) <= maxSize {
		p.values[path], p.valuesSize = value, p.valuesSize+len(value)
		p.report(secret, at, "%s is written to %s", strings.TrimSuffix(what, ","), path)
		return path
	}
	p.report(secret, at, "write %s to %s, mode 0600", what, path)
	return path
}

// secretsFolder is the folder of files with secrets, beside prober.yaml.
const secretsFolder = "secrets"

// secretReference is like secretFile, but returns a reference for the config of a plugin.
func (p *plan) secretReference(at position, name, what string) string {
	return p.secretReferenceOf(at, name, what, "")
}

// secretReferenceOf is like secretFile, but returns a reference.
func (p *plan) secretReferenceOf(at position, name, what, value string) string {
	p.secrets["file:"+secretsFolder+"/*"] = true
	return p.referTo("file:" + p.secretFile(at, name, what, value))
}

// fileReference returns a reference to an existing file of the user.
func (p *plan) fileReference(at position, path string) (text string, ok bool) {
	if path == "" || strings.ContainsAny(path, "}*?[\\") || slices.Contains(strings.Split(path, "/"), "..") || hasControl(path) {
		p.noEqual(at, "the path %.80q cannot be in a reference to a file", path)
		return "", false
	}
	return p.allow(at, "file:"+path), true
}

// variableReference returns a reference to a variable of the environment.
func (p *plan) variableReference(at position, name string) string { return p.allow(at, "env:"+name) }

// allow returns a reference to a file or a variable of the host. It reports each of them once, since an input
// from someone else may send any secret of the host to a server of theirs.
func (p *plan) allow(at position, what string) string {
	if !p.secrets[what] {
		p.secrets[what] = true
		p.report(secret, at, "probes use the value of %s: remove it from secrets.allow unless they may", what)
	}
	return p.referTo(what)
}

func (p *plan) referTo(what string) string {
	text := "${" + what + "}"
	p.references[text] = true
	return text
}

func (p *plan) checkedLabels(at position, labels map[string]string) map[string]string {
	size := 0
	maps.DeleteFunc(labels, func(name, value string) bool {
		if !assignsSecret(name + "=" + value) {
			return false
		}
		p.noEqual(at, "the label %.40q is not imported: it may have a secret", name)
		return true
	})
	for name, value := range labels {
		size += len(name) + len(value)
	}
	if len(labels) > 90 || size > 15<<10 {
		p.noEqual(at, "there are too many labels: at most 90 with 15 KiB are imported")
		return nil
	}
	return labels
}

// unique returns a name for a group, a push or an endpoint.
func (p *plan) unique(name, without string) string {
	name = p.uniqueIn(name, without, func(name string) bool { return p.names[name] })
	p.names[name] = true
	return name
}

// uniqueIn returns a name that is not taken: name in lower-case letters, digits and dashes.
func (p *plan) uniqueIn(name, without string, taken func(string) bool) string {
	name = slug(name, without)
	for numbered := name; ; {
		if !taken(numbered) {
			return numbered
		}
		p.numbers[name]++
		suffix := "-" + strconv.Itoa(p.numbers[name]+1)
		numbered = strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-") + suffix
	}
}

// maxName is the limit of the names of groups, pushes and endpoints.
const maxName = 40

// slug returns text in lower-case letters, digits and dashes, and without if nothing is left.
func slug(text, without string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxName {
			break
		}
	}
	if name := strings.Trim(b.String(), "-"); name != "" {
		return name
	}
	return without
}

// namespace returns text as a namespace; "" for the default.
func namespace(text string) string {
	if text == "" {
		return ""
	}
	return slug(text, "")
}

// moduleName returns text as the name of a module.
func moduleName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '-'
	}, text)
	name = strings.Trim(name[:min(len(name), 50)], "-._")
	if name == "" {
		return "module"
	}
	return name
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// acyclic removes dependencies on unknown groups and those that close a cycle.
func (p *plan) acyclic() {
	w := &dependencyWalk{p: p, groups: make(map[string]*group, len(p.groups)), open: make(map[*group]bool, len(p.groups))}
	for _, g := range p.groups {
		w.groups[g.name] = g
	}
	for _, g := range p.groups {
		w.visit(g)
	}
}

// dependencyWalk is a walk along the dependencies, depth first.
type dependencyWalk struct {
	p      *plan
	groups map[string]*group // by name
	open   map[*group]bool   // true while its dependencies are visited, false after
}

func (w *dependencyWalk) visit(g *group) {
	if _, visited := w.open[g]; visited {
		return
	}
	w.open[g] = true
	slices.Sort(g.dependsOn)
	g.dependsOn = slices.DeleteFunc(slices.Compact(g.dependsOn), func(name string) bool {
		other := w.groups[name]
		switch {
		case other == nil || other.dropped:
			return true
		case w.open[other]:
			w.p.noEqual(g.at, "the dependency on %s is not imported: it closes a cycle", name)
			return true
		}
		w.visit(other)
		return false
	})
	w.open[g] = false
}

// sortedFindings returns the findings in the order of the input.
func (p *plan) sortedFindings() []Finding {
	order := make(map[string]int)
	for _, f := range p.findings {
		if _, ok := order[f.File]; !ok {
			order[f.File] = len(order)
		}
	}
	all := slices.Clone(p.findings)
	slices.SortStableFunc(all, func(a, b Finding) int {
		if order[a.File] != order[b.File] {
			return order[a.File] - order[b.File]
		}
		return a.Line - b.Line
	})
	return slices.CompactFunc(all, func(a, b Finding) bool { return a == b })
}

// count returns the number of findings of a kind.
func (p *plan) count(k kind) (n int) {
	for _, f := range p.sortedFindings() {
		if f.Kind == k {
			n++
		}
	}
	return n
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
