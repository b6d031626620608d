package importcmd

import (
	"path"
	"slices"
	"strings"
	"time"
)

// cloudprober imports configs of cloudprober.
type cloudprober struct {
	p         *plan
	shared    map[string]*object // shared_targets by name
	receivers map[string]string  // names by a key of their settings
}

func readCloudprober(p *plan, files []input) error {
	for _, in := range files {
		parse := parseTextproto
		if name := strings.ToLower(path.Ext(in.name)); name == ".yaml" || name == ".yml" || name == ".json" {
			parse = parseYAML
		}
		o, err := parse(p, in)
		if err != nil {
			return err
		}
		c := &cloudprober{p, make(map[string]*object), make(map[string]string)}
		c.file(o)
	}
	return nil
}

func (c *cloudprober) file(o *object) {
	for _, s := range o.objects("shared_targets") {
		c.shared[s.text("name")] = s.object("targets")
		s.rest()
	}
	for _, probe := range o.objects("probe") {
		c.probe(probe)
		probe.rest()
	}
	o.none("Prometheus reads the metrics of prober: docs/metrics.md", "surfacer")
	o.none("prober has no such server", "server", "rds_server", "grpc_port", "probestatus")
	o.none("set it with flags of prober run: --listen", "port", "host", "tls_config")
	o.none("it has no equal", "global_targets_options", "alerting", "shared_config")
	o.ignore("it does not change what is probed", "sysvars_interval_msec", "sysvars_env_var", "disable_jitter", "stop_time_sec", "project", "system_attributes")
	o.rest()
}

// cloudCheck is a probe of cloudprober.
type cloudCheck struct {
	*cloudprober
	o      *object
	name   string
	group  *group
	port   int
	config fields // of the plugin, by validators and the probe
	target fields // target of a plugin
}

func (c *cloudprober) probe(o *object) {
	k := &cloudCheck{cloudprober: c, o: o, name: o.text("name")}
	k.group = &group{entry: entry{at: o.at("")}, name: k.name, labels: make(map[string]string), probe: spec{
		period: o.interval("interval", o.units("interval_msec", 2000, time.Millisecond)), timeout: o.interval("timeout", o.units("timeout_msec", 1000, time.Millisecond)),
	}}
	for _, l := range o.objects("additional_label") {
		if name := l.text("key"); name != "" {
			k.group.labels[name] = l.text("value")
		}
		l.rest()
	}
	for _, a := range o.objects("alert") {
		k.alert(a)
	}
	made := k.action()
	if made {
		k.targets(o.object("targets"))
		c.p.addGroup(k.group)
	}
	o.none("the result cannot be turned upside down", "negative_test")
	o.none("prober run on each host decides what it probes", "run_on")
	o.none("there is no schedule of probes: run prober pause by cron", "schedule")
	o.none("metrics of attempts have buckets of their own", "latency_distribution", "latency_unit", "latency_metric_name")
	o.none("the probe has no such option", "source_interface", "targets_update_interval_msec")
	o.ignore("it does not change what is probed", "stats_export_interval_msec", "stats_export_interval", "debug_options", "interval_between_targets_msec")
	if !made {
		o.ignore("the probe is not imported", "targets", "validator", "ip_version", "source_ip", "additional_label", "alert", "http_probe", "dns_probe", "ping_probe", "tcp_probe", "grpc_probe",
			"udp_probe", "udp_listener_probe", "external_probe", "user_defined_probe", "browser_probe", "extension", "extension_type")
	}
}

// action sets the action of the probe. It reports whether there is one.
func (k *cloudCheck) action() bool {
	o := k.o
	switch kind := strings.ToUpper(o.text("type")); kind {
	case "HTTP":
		return k.http(o.object("http_probe"))
	case "PING":
		k.ping(o.object("ping_probe"))
	case "TCP":
		t := o.object("tcp_probe")
		k.port = t.integer("port", 0)
		t.none("the plugin expect has tls", "tls_handshake", "tls_config")
		t.none("the probe has no such option", "resolve_first", "interval_between_targets_msec")
		t.rest()
		k.noAddress()
		k.noValidators()
		k.group.probe.action = tcp()
	case "DNS":
		k.dns(o.object("dns_probe"))
	case "GRPC":
		return k.grpc(o.object("grpc_probe"))
	case "EXTERNAL":
		return k.external(o.object("external_probe"))
	default:
		k.p.noEqual(o.at("type"), "the probe %s is not imported: there is no probe for the type %.40q: use a plugin", k.name, kind)
		return false
	}
	return true
}

// address sets the options of plugins about the address.
func (k *cloudCheck) address(withSource bool) {
	if version := k.o.text("ip_version"); version == "IPV4" || version == "IPV6" {
		k.config = k.config.set("preferredIpProtocol", map[string]string{"IPV4": "ip4", "IPV6": "ip6"}[version]).set("ipProtocolFallback", false)
	}
	if source := k.o.text("source_ip"); source != "" && withSource {
		k.config = k.config.set("sourceIpAddress", source)
	}
}

func (k *cloudCheck) noAddress() {
	k.o.none("this probe has no such option", "ip_version", "source_ip")
}

func (k *cloudCheck) noValidators() {
	for _, v := range k.o.objects("validator") {
		k.p.noEqual(v.at(""), "this probe has no validators")
	}
}

func (k *cloudCheck) ping(o *object) {
	k.address(true)
	k.config = k.config.with("count", min(max(o.integer("packets_per_probe", 2), 1), 20))
	if size := o.integer("payload_size", 56); size != 56 {
		k.config = k.config.set("payloadSize", size)
	}
	o.ignore("echo requests are sent one after the other", "packets_interval_msec", "use_datagram_socket", "disable_integrity_check", "disable_fragmentation")
	o.rest()
	k.noValidators()
	k.group.probe.action = plugin("icmp", k.config)
}

func (k *cloudCheck) dns(o *object) {
	k.address(true)
	check := dnsCheck{name: o.text("resolved_domain"), kind: o.text("query_type"), class: o.text("query_class"), proto: o.text("dns_proto")}
	if check.name == "" {
		check.name = "www.google.com."
	}
	if check.kind == "" {
		check.kind = "MX"
	}
	if n := o.integer("min_answers", 0); n > 1 {
		k.p.noEqual(o.at("min_answers"), "answers are not counted")
	} else if n == 1 {
		k.config = k.config.set("validateAnswerRrs", fields{{"failIfNoneMatchesRegexp", []string{"."}}})
	}
	for _, v := range k.o.objects("validator") {
		if text, ok := k.regexp(v); ok {
			k.config = k.config.set("validateAnswerRrs", fields{{"failIfNoneMatchesRegexp", []string{text}}})
		}
		v.rest()
	}
	o.none("the probe has no such option", "resolve_first", "requests_per_probe", "requests_interval_msec")
	o.rest()
	check.config = k.config
	k.group.probe.action = check.action()
}

// regexp returns the expression of a validator.
func (k *cloudCheck) regexp(v *object) (string, bool) {
	v.text("name")
	v.none("this probe has no such validator", "http_validator", "integrity_validator", "json_validator")
	text := v.text("regex")
	if text == "" {
		return "", false
	}
	return k.p.pattern(v.at("regex"), text)
}

func (k *cloudCheck) grpc(o *object) bool {
	method := o.text("method")
	if method != "" && method != "HEALTH_CHECK" {
		k.p.noEqual(o.at("method"), "the probe %s is not imported: the gRPC probe asks the health service, and no other", k.name)
		return false
	}
	k.port = o.integer("port", 0)
	if !o.boolean("insecure_transport", false) {
		k.p.noEqual(o.at(""), "the probe %s is not imported: the gRPC probe does not verify certificates: use the plugin grpc-health", k.name)
		return false
	}
	action := fields{}.with("service", o.text("health_check_service"))
	if k.port > 0 {
		action = append(fields{{"port", k.port}}, action...)
	}
	o.none("the probe has no such option", "oauth_config", "alts_config", "tls_config", "headers", "uri_scheme", "num_conns", "keep_alive", "connect_timeout_msec", "blob_size", "request")
	o.rest()
	k.noAddress()
	k.noValidators()
	k.group.probe.action = fields{{"grpc", action}}
	return true
}

func (k *cloudCheck) external(o *object) bool {
	words, ok := splitShell(o.text("command"))
	switch {
	case !strings.EqualFold(o.text("mode"), "ONCE") && o.has("mode") || !ok || len(words) == 0:
		k.p.noEqual(o.at(""), "the probe %s is not imported: a command runs once for each attempt", k.name)
		return false
	case slices.ContainsFunc(words, func(w string) bool {
		return strings.Count(strings.NewReplacer("@target@", "", "@address@", "", "@port@", "").Replace(w), "@") > 1
	}):
		k.p.noEqual(o.at("command"), "the probe %s is not imported: its labels in @ are not known", k.name)
		return false
	}
	action := execAction(words)
	command, _ := action[0].value.(fields)[0].value.([]string)
	for i := range command {
		command[i] = strings.NewReplacer("@target@", "$(TARGET_HOST)", "@address@", "$(TARGET_HOST)", "@port@", "$(TARGET_PORT)").Replace(command[i])
	}
	o.none("a command has no such option", "options", "env_var", "output_as_metrics", "output_metrics_options")
	o.rest()
	k.noAddress()
	k.noValidators()
	k.group.probe.action = action
	return true
}
