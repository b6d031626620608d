package importcmd

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// nagios imports object configurations of Nagios.
type nagios struct {
	*nagiosFiles
	commands  map[string]*definition
	hosts     map[string]*nagiosHost
	order     []*nagiosHost
	hostsOf   map[string][]string // names of the hosts of a host group
	contacts  map[string][]string // names of receivers of a contact
	groupOf   map[string][]string // contacts of a contact group
	services  map[string][]*group // groups of a service, by host and description
	reachable map[string]*group   // the groups that check hosts, by host
	written   map[string]string   // names of plugins by their command line
	members   map[string]bool     // host groups and hosts in them
	left      int                 // how many pairs of hosts and groups, services or dependencies may still be read
}

// maxPairs bounds the pairs of hosts and groups, services or dependencies.
const maxPairs = 1_000_000

// pay reports whether another pair may be read. It reports the first one that may not.
func (n *nagios) pay(at position) bool {
	if n.left--; n.left == -1 {
		n.p.noEqual(at, "there are more than %d pairs of hosts and groups, services or dependencies: the rest is not imported", maxPairs)
	}
	return n.left >= 0
}

// nagiosHost is a host.
type nagiosHost struct {
	*definition
	name, address string
	parents       []string
	groups        []string // host groups
}

func readNagios(p *plan, files []input) error {
	f, err := readDefinitions(p, files)
	if err != nil {
		return err
	}
	n := &nagios{
		nagiosFiles: f, commands: make(map[string]*definition), hosts: make(map[string]*nagiosHost), hostsOf: make(map[string][]string),
		contacts: make(map[string][]string), groupOf: make(map[string][]string), services: make(map[string][]*group), reachable: make(map[string]*group), written: make(map[string]string),
		members: make(map[string]bool), left: maxPairs,
	}
	n.each("command", func(d *definition) { n.commands[d.text("command_name")] = d })
	n.each("contactgroup", n.contactGroup)
	n.each("contact", n.contact)
	n.each("host", n.host)
	n.each("hostgroup", n.hostGroup)
	for _, h := range n.order {
		n.checkHost(h)
	}
	n.parents()
	n.each("service", n.service)
	n.each("servicedependency", n.serviceDependency)
	n.each("hostdependency", n.hostDependency)
	n.others()
	for _, d := range f.all {
		if !d.isTemplate() {
			d.rest()
		}
	}
	return nil
}

// each calls read with each definition of a kind that is not a template.
func (n *nagios) each(kind string, read func(*definition)) {
	for _, d := range n.all {
		if d.kind == kind && !d.isTemplate() {
			read(d)
		}
	}
}

// others reports definitions without an equal.
func (n *nagios) others() {
	why := map[string]string{
		"timeperiod": "write quiet hours of receivers, or maintenance, by hand", "serviceescalation": "escalate by for and match of receivers",
		"hostescalation": "escalate by for and match of receivers", "servicegroup": "use labels",
		"serviceextinfo": "", "hostextinfo": "", "command": "",
	}
	for _, d := range n.all {
		text, known := why[d.kind]
		switch {
		case d.isTemplate() || slices.Contains([]string{"host", "service", "contact", "contactgroup", "hostgroup", "servicedependency", "hostdependency"}, d.kind):
			continue
		case !known:
			n.p.noEqual(d.at(""), "the kind is unknown")
		case d.kind == "timeperiod" && isAlways(textOf(d.n, "timeperiod_name")):
		case text != "":
			n.p.noEqual(d.at(""), "%s %s has no equal: %s", d.kind, d.label("timeperiod_name", "servicegroup_name", "host_name", "service_description"), text)
		}
		for i := 0; i+1 < len(d.n.Content); i += 2 {
			d.used[d.n.Content[i].Value] = true
		}
	}
}

// isAlways reports whether a period of time is all the time, by its usual names.
func isAlways(period string) bool {
	return slices.Contains([]string{"", "24x7", "24x7_sans_holidays", "always"}, period)
}

func (n *nagios) contactGroup(d *definition) {
	name := d.text("contactgroup_name")
	n.groupOf[name] = append(n.groupOf[name], d.words("members")...)
	d.none("list the contacts of the groups", "contactgroup_members")
	d.ignore("it is a name", "alias")
}

// contact makes a receiver of a contact with a mail address.
func (n *nagios) contact(d *definition) {
	name := d.text("contact_name")
	for _, group := range d.words("contactgroups") {
		n.groupOf[group] = append(n.groupOf[group], name)
	}
	d.none("exec of a receiver runs a command", "pager", "address1", "address2", "address3", "address4", "address5", "address6")
	d.ignore("prober writes its own messages", "service_notification_commands", "host_notification_commands", "can_submit_commands", "retain_status_information", "retain_nonstatus_information", "alias",
		"host_notification_options", "minimum_importance")
	d.period("service_notification_period")
	d.period("host_notification_period")
	on := d.boolean("service_notifications_enabled", true)
	d.boolean("host_notifications_enabled", true)
	options := d.words("service_notification_options")
	email := d.words("email")
	if len(email) == 0 || !on || slices.Contains(options, "n") {
		return
	}
	m := &mailer{at: d.at("email"), name: name, to: email, from: "nagios@localhost", host: localhost, port: 25, tls: "none"}
	f := n.p.mail(m)
	if f == nil {
		return
	}
	n.p.differs(d.at("email"), "prober sends mails by SMTP to localhost:25 as nagios@localhost: set from and smarthost")
	f = f.with("states", states(options))
	if len(options) > 0 && !slices.Contains(options, "r") {
		f = f.set("resolved", false)
	}
	n.contacts[name] = append(n.contacts[name], n.p.addReceiver(d.at(""), name, f))
}

// states returns the states of a receiver; nil for the default.
func states(options []string) (all []string) {
	for _, s := range [][2]string{{"c", "failure"}, {"w", "warning"}, {"u", "unknown"}} {
		if slices.Contains(options, s[0]) {
			all = append(all, s[1])
		}
	}
	if len(all) == 0 || slices.Equal(all, []string{"failure", "unknown"}) {
		return nil
	}
	return all
}

// period reports a period of time that is not all the time.
func (d *definition) period(name string) {
	if text := d.text(name); !isAlways(text) {
		d.p.noEqual(d.at(name), "there are no periods of time: run prober pause by cron")
	}
}

func (n *nagios) host(d *definition) {
	h := &nagiosHost{definition: d, name: d.text("host_name"), parents: d.words("parents"), groups: d.words("hostgroups")}
	h.address = cmp.Or(d.text("address"), h.name)
	if h.name == "" {
		n.p.noEqual(d.at(""), "the host has no host_name")
		return
	}
	if n.hosts[h.name] != nil {
		n.p.noEqual(d.at(""), "the host %.40s is defined twice", h.name)
		return
	}
	n.hosts[h.name], n.order = h, append(n.order, h)
	groups := h.groups
	h.groups = nil
	for _, name := range groups {
		n.join(h, name)
	}
	d.ignore("it does not change what is probed", "display_name", "alias", "icon_image", "icon_image_alt", "statusmap_image", "2d_coords", "3d_coords", "vrml_image", "notes", "notes_url", "action_url",
		"process_perf_data", "retain_status_information", "retain_nonstatus_information", "importance", "stalking_options", "obsess_over_host", "first_notification_delay")
	d.common()
}

// common reports directives that hosts and services share.
func (d *definition) common() {
	d.none("exec of a receiver runs a command", "event_handler")
	d.ignore("there is no event handler", "event_handler_enabled")
	d.ignore("it belongs to flap detection: window of a push, or higher thresholds", "flap_detection_enabled", "flap_detection_options", "low_flap_threshold", "high_flap_threshold")
	d.ignore("set states of the receivers", "notification_options")
	d.ignore("the state begins as unknown", "initial_state")
	d.period("check_period")
	d.period("notification_period")
}

func (n *nagios) hostGroup(d *definition) {
	name := d.text("hostgroup_name")
	for _, host := range d.words("members") {
		if host == "*" {
			for _, h := range n.order {
				if n.left > 0 {
					n.join(h, name)
				}
			}
			n.left -= len(n.order) / 100 // looking at hosts takes time too
		} else if h := n.hosts[host]; h != nil {
			n.join(h, name)
		} else {
			n.p.noEqual(d.at("members"), "there is no host %.40q", host)
		}
	}
	for _, other := range d.words("hostgroup_members") {
		for _, host := range n.hostsOf[other] {
			n.join(n.hosts[host], name)
		}
	}
	d.ignore("it does not change what is probed", "alias", "notes", "notes_url", "action_url")
}

// join adds a host to a host group.
func (n *nagios) join(h *nagiosHost, name string) {
	if key := name + "\x00" + h.name; !n.members[key] && n.pay(h.at("")) {
		n.members[key] = true
		n.hostsOf[name], h.groups = append(n.hostsOf[name], h.name), append(h.groups, name)
	}
}

// spec returns the times and thresholds of a host or a service.
func (n *nagios) spec(d *definition) spec {
	unit := time.Duration(n.interval) * time.Second
	checks := cmp.Or(d.text("check_interval"), d.text("normal_check_interval"))
	retries := cmp.Or(d.text("retry_interval"), d.text("retry_check_interval"))
	s := spec{period: 5 * unit, timeout: 10 * time.Second, failureLimit: max(d.integer("max_check_attempts", 3), 1)}
	if v := parseSeconds(checks); v > 0 {
		s.period = min(time.Duration(v.Seconds()*float64(unit)), maxDuration)
	}
	if v := parseSeconds(retries); v > 0 {
		s.unhealthyPeriod = min(time.Duration(v.Seconds()*float64(unit)), maxDuration)
	}
	if !d.boolean("active_checks_enabled", true) {
		s.paused = true
	}
	return s
}

// alerts returns the receivers of a host or a service.
func (n *nagios) alerts(d *definition) (all []string) {
	on := d.boolean("notifications_enabled", true)
	names := d.words("contacts")
	for _, group := range d.words("contact_groups") {
		if n.left -= len(n.groupOf[group]) / 100; n.left < 0 {
			break
		}
		names = append(names, n.groupOf[group]...)
	}
	if interval := d.text("notification_interval"); interval != "" && interval != "0" && len(names) > 0 {
		n.p.report(ignored, d.at("notification_interval"), "it is repeatInterval of the receivers")
	}
	for _, name := range names {
		for _, r := range n.contacts[name] {
			if on && !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// labels returns the labels of the targets of a host.
func (h *nagiosHost) labels() map[string]string {
	labels := map[string]string{"host": h.name}
	if len(h.groups) > 0 {
		labels["hostgroups"] = strings.Join(h.groups[:min(len(h.groups), 50)], ",")
	}
	return labels
}

// checkHost makes a group of the check of a host.
func (n *nagios) checkHost(h *nagiosHost) {
	line := h.text("check_command")
	s, alerts := n.spec(h.definition), n.alerts(h.definition)
	h.ignore("there are no passive checks of hosts", "passive_checks_enabled", "check_freshness", "freshness_threshold")
	if line == "" {
		n.p.report(ignored, h.at(""), "hosts without a check_command are not probed")
		return
	}
	if n.p.full(h.at("check_command")) {
		return
	}
	g := &group{entry: entry{at: h.at("check_command")}, name: h.name + "-host", labels: h.labels(), alerts: alerts, probe: s, module: "host-" + line[:strings.IndexByte(line+"!", '!')]}
	n.check(h.definition, h, line, g)
	if added := n.p.addGroup(g); added != nil {
		n.reachable[h.name] = added
	}
}

// parents makes the checks of hosts depend on their parents.
func (n *nagios) parents() {
	for _, h := range n.order {
		for _, parent := range h.parents {
			p := n.hosts[parent]
			switch {
			case p == nil:
				n.p.noEqual(h.at("parents"), "there is no host %.40q", parent)
			case n.reachable[h.name] == nil || n.reachable[parent] == nil:
				n.p.noEqual(h.at("parents"), "the dependency on %.40s is not imported: one of the hosts has no check", parent)
			case n.pay(h.at("parents")):
				n.reachable[h.name].dependsOn = append(n.reachable[h.name].dependsOn, n.reachable[parent].name)
			}
		}
		if len(h.parents) > 1 {
			n.p.differs(h.at("parents"), "a host with several parents is unknown while one of them fails, not all")
		}
	}
}

// service makes a group of a service for each of its hosts.
func (n *nagios) service(d *definition) {
	description := d.text("service_description")
	hosts := n.hostsOfService(d)
	line := d.text("check_command")
	s, alerts := n.spec(d), n.alerts(d)
	d.ignore("it does not change what is probed", "display_name", "icon_image", "icon_image_alt", "notes", "notes_url", "action_url", "process_perf_data", "retain_status_information",
		"retain_nonstatus_information", "importance", "stalking_options", "obsess_over_service", "is_volatile", "parallelize_check", "first_notification_delay", "failure_prediction_enabled")
	groups := d.words("servicegroups")
	d.common()
	fresh := d.number("freshness_threshold", 0)
	passive := d.boolean("passive_checks_enabled", true) && s.paused
	d.ignore("a push without a report fails", "check_freshness")
	d.none("list the dependency on the host", "parents")
	for _, h := range hosts {
		if !n.pay(d.at("")) || n.p.full(d.at("")) {
			return
		}
		labels := h.labels()
		if len(groups) > 0 {
			labels["servicegroups"] = strings.Join(groups, ",")
		}
		name := h.name + "-" + description
		if passive {
			n.passive(d, name, labels, alerts, fresh)
			continue
		}
		g := &group{entry: entry{at: d.at("")}, name: name, labels: labels, alerts: alerts, probe: s, module: slug(description, "service")}
		if up := n.reachable[h.name]; up != nil {
			g.dependsOn = append(g.dependsOn, up.name)
		}
		n.check(d, h, line, g)
		if added := n.p.addGroup(g); added != nil {
			key := h.name + "\x00" + description
			n.services[key] = append(n.services[key], added)
		}
	}
}

// passive makes a push of a service without active checks.
func (n *nagios) passive(d *definition, name string, labels map[string]string, alerts []string, fresh float64) {
	ttl := units(fresh, time.Second)
	if ttl < time.Second {
		n.p.differs(d.at(""), "without freshness_threshold, a report is due within 366 days")
		ttl = maxTTL
	}
	n.p.differs(d.at(""), "results are reported by prober push or prober push --nsca")
	n.p.addPush(&push{entry: entry{at: d.at("")}, name: name, labels: labels, alerts: alerts, rest: fields{{"ttl", ttl}}})
}

// hostsOfService returns the hosts of a service, in the order of their definitions.
func (n *nagios) hostsOfService(d *definition) (all []*nagiosHost) {
	if n.left < 0 {
		return nil // reported
	}
	chosen, not := make(map[string]bool), make(map[string]bool)
	add := func(name string, hosts []string) {
		if n.left -= len(hosts) / 100; n.left < 0 {
			return
		}
		if strings.HasPrefix(name, "!") {
			for _, h := range hosts {
				not[h] = true
			}
			return
		}
		for _, h := range hosts {
			chosen[h] = true
		}
	}
	for _, name := range d.words("host_name") {
		plain := strings.TrimPrefix(name, "!")
		switch {
		case plain == "*":
			add(name, n.hostNames())
		case n.hosts[plain] == nil:
			n.p.noEqual(d.at("host_name"), "there is no host %.40q", plain)
		default:
			add(name, []string{plain})
		}
	}
	for _, name := range append(d.words("hostgroup_name"), d.words("hostgroup")...) {
		plain := strings.TrimPrefix(name, "!")
		if plain == "*" {
			add(name, n.hostNames())
		} else if len(n.hostsOf[plain]) == 0 {
			n.p.noEqual(d.at("hostgroup_name"), "there is no host group %.40q with hosts", plain)
		} else {
			add(name, n.hostsOf[plain])
		}
	}
	for _, h := range n.order {
		if chosen[h.name] && !not[h.name] {
			all = append(all, h)
		}
	}
	n.left -= len(n.order) / 100
	if len(all) == 0 {
		n.p.noEqual(d.at(""), "the service %s is not imported: it has no host", d.label("service_description"))
	}
	return all
}

// hostNames returns the names of all hosts.
func (n *nagios) hostNames() []string {
	all := make([]string, len(n.order))
	for i, h := range n.order {
		all[i] = h.name
	}
	return all
}

// serviceDependency makes services depend on services.
func (n *nagios) serviceDependency(d *definition) {
	on, of := d.words("host_name"), d.words("dependent_host_name")
	if len(of) == 0 {
		of = on
	}
	need, dependent := d.words("service_description"), d.words("dependent_service_description")
	d.none("list host_name", "hostgroup_name", "dependent_hostgroup_name")
	d.dependencyOptions()
	found := false
	needed := n.servicesOf(d, on, need)
	for _, g := range n.servicesOf(d, of, dependent) {
		for _, other := range needed {
			if n.pay(d.at("")) {
				g.dependsOn, found = append(g.dependsOn, other.name), true
			}
		}
	}
	if !found {
		n.p.noEqual(d.at(""), "the dependency is not imported: its services have no probes")
	}
}

// servicesOf returns the groups of services on hosts.
func (n *nagios) servicesOf(d *definition, hosts, services []string) (all []*group) {
	for _, host := range hosts {
		for _, service := range services {
			if !n.pay(d.at("")) {
				return all
			}
			all = append(all, n.services[host+"\x00"+service]...)
		}
	}
	return all
}

func (d *definition) dependencyOptions() {
	d.ignore("while the other one fails, a failure is an error and nobody is notified", "execution_failure_criteria", "notification_failure_criteria", "inherits_parent")
	d.period("dependency_period")
}

// hostDependency makes hosts depend on hosts.
func (n *nagios) hostDependency(d *definition) {
	d.none("list host_name", "hostgroup_name", "dependent_hostgroup_name")
	d.dependencyOptions()
	found := false
	on := d.words("host_name")
	for _, name := range d.words("dependent_host_name") {
		for _, needed := range on {
			if g, other := n.reachable[name], n.reachable[needed]; g != nil && other != nil && n.pay(d.at("")) {
				g.dependsOn, found = append(g.dependsOn, other.name), true
			}
		}
	}
	if !found {
		n.p.noEqual(d.at(""), "the dependency is not imported: its hosts have no probes")
	}
}
