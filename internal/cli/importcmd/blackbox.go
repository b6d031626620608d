package importcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/yamlpos"
)

// exporter imports modules of blackbox_exporter, and scrape jobs of Prometheus.
type exporter struct {
	p       *plan
	modules map[string]*blackboxModule
	used    map[string]bool
}

// blackboxModule is a module. Its probe has no period.
type blackboxModule struct {
	at    position
	name  string
	probe spec
}

func readBlackbox(p *plan, files []input) error {
	e := &exporter{p, make(map[string]*blackboxModule), make(map[string]bool)}
	var jobs []*object
	for _, in := range files {
		o, err := parseYAML(p, in)
		switch {
		case err != nil:
			return err
		case !o.has("modules"):
			jobs = append(jobs, o)
			continue
		}
		if err := e.read(in); err != nil {
			return err
		}
	}
	for _, o := range jobs {
		e.prometheus(o)
	}
	for _, name := range sortedKeys(e.modules) {
		if m := e.modules[name]; !e.used[name] && p.onlyOwnReferences(m.at, m.probe.action) && !p.full(m.at) {
			p.addModule(name, m.probe, m.at)
		}
	}
	return nil
}

// read reads a file with modules.
func (e *exporter) read(in input) error {
	all, err := blackbox.Define(in.name, in.text, &blackboxReferences{e.p, in.name, lineOfModule(in)})
	if err != nil {
		return err
	}
	for _, d := range all {
		at := position{in.name, d.Line, join("modules", d.Name)}
		for _, err := range d.Unsupported {
			e.p.noEqual(position{err.File, err.Line, err.Field}, "%v", err.Err)
		}
		if d.Handler == "" {
			e.p.noEqual(at, "the module is not imported")
			continue
		}
		if e.modules[d.Name] != nil {
			e.p.noEqual(at, "another file has the module too")
			continue
		}
		if d.Handler == "expect" && slices.ContainsFunc(d.Unsupported, func(err *yamlpos.Error) bool { return strings.HasSuffix(err.Field, ".expect_bytes") }) {
			e.p.noEqual(at, "the module is not imported: its other steps are not the same check")
			continue
		}
		m := &blackboxModule{at: at, name: d.Name, probe: spec{timeout: d.Timeout}}
		action, err := e.action(&d, at)
		if err != nil {
			return fmt.Errorf("%s:%d: modules.%s: %w", in.name, d.Line, d.Name, err)
		}
		var ok bool
		if m.probe.action, ok = e.p.guarded(at, d.Name, action); ok {
			e.modules[d.Name] = m
		}
	}
	return nil
}

// action returns the action of a module.
func (e *exporter) action(d *blackbox.Definition, at position) (fields, error) {
	text, err := json.Marshal(d.Config)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&config); err != nil {
		return nil, err
	}
	if config["compression"] == "br" {
		delete(config, "compression") // reported as unsupported
	}
	f := ordered(config)
	switch d.Handler {
	case "grpc":
		return fields{{"grpc", f}}, nil
	case "dns":
		return pluginAt("dns", map[bool]int{false: 53, true: 853}[config["dnsOverTls"] == true], f), nil
	case "httpcheck":
		f = append(fields{{"url", "/"}}, f...)
		if config["followRedirects"] != false || config["proxyUrl"] != nil {
			e.p.follow("httpcheck")
		}
	}
	return plugin(d.Handler, f), nil
}

// ordered returns a mapping of JSON with its fields in order.
func ordered(m map[string]any) (f fields) {
	for _, key := range sortedKeys(m) {
		f = f.set(key, orderedValue(m[key]))
	}
	return f
}

func orderedValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return ordered(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = orderedValue(v[i])
		}
		return all
	}
	return v
}

// blackboxReferences makes references for the secrets of modules.
type blackboxReferences struct {
	p    *plan
	file string
	line func(module, field string) int
}

func (r *blackboxReferences) at(module, field string) position {
	return position{r.file, r.line(module, field), join("modules", module) + "." + field}
}

// Secret implements [blackbox.References].
func (r *blackboxReferences) Secret(module, field string) string {
	name := field[strings.LastIndexByte(field, '.')+1:]
	return r.p.secretReference(r.at(module, field), module+"-"+name, "the value of "+name)
}

// File implements [blackbox.References].
func (r *blackboxReferences) File(module, field, path string) string {
	at := r.at(module, field)
	text, ok := r.p.fileReference(at, path)
	if ok && !strings.HasPrefix(path, "/") {
		r.p.differs(at, "the relative path is from the folder of prober.yaml")
	}
	return text
}

// Credentials implements [blackbox.References].
func (r *blackboxReferences) Credentials(module, field, handler string, c config.Credentials) string {
	f := fields{}.with("ca", c.CA).with("cert", c.Cert).with("key", c.Key).with("serverName", c.ServerName).with("insecure", c.Insecure)
	return r.p.addCredentials(r.at(module, field), module, handler, f)
}

// lineOfModule returns a function for the lines of fields of modules.
func lineOfModule(in input) func(module, field string) int {
	d := yamlpos.Decoder{File: in.name, Loose: true}
	root := d.Parse(in.text, maxInput)
	return func(module, field string) int {
		if root == nil {
			return 1
		}
		return yamlpos.Line(root, join("modules", module)+"."+field)
	}
}

// prometheus reads the jobs of a prometheus.yml.
func (e *exporter) prometheus(o *object) {
	global := o.object("global")
	period := promDuration(global, "scrape_interval", time.Minute)
	timeout := promDuration(global, "scrape_timeout", 10*time.Second)
	for i := 0; i+1 < len(global.n.Content); i += 2 {
		global.ignore("Prometheus itself uses it", global.n.Content[i].Value)
	}
	for _, job := range o.objects("scrape_configs") {
		e.job(job, promDuration(job, "scrape_interval", period), promDuration(job, "scrape_timeout", timeout))
		job.rest()
	}
	o.ignore("Prometheus itself uses it", "alerting", "rule_files", "remote_write", "remote_read", "storage", "tracing", "scrape_config_files", "runtime", "otlp")
	o.rest()
}

// promDuration returns a duration of Prometheus, such as 1m or 1d.
func promDuration(o *object, name string, without time.Duration) time.Duration {
	text := o.text(name)
	if text == "" {
		return without
	}
	d, err := model.ParseDuration(text)
	if err != nil || d <= 0 {
		o.p.noEqual(o.at(name), "%.40q must be a duration such as 30s", text)
		return without
	}
	return min(time.Duration(d), maxDuration)
}

// job makes groups of a scrape job: one for each list of targets and each module.
func (e *exporter) job(o *object, period, timeout time.Duration) {
	name := o.text("job_name")
	params := o.object("params")
	modules := params.strings("module")
	if len(modules) == 0 && !strings.HasSuffix(o.text("metrics_path"), "/probe") {
		e.p.report(ignored, o.at("job_name"), "it is no job of blackbox_exporter")
		for i := 0; i+1 < len(o.n.Content); i += 2 {
			o.used[o.n.Content[i].Value] = true
		}
		return
	}
	if len(modules) == 0 {
		modules = []string{"http_2xx"}
	}
	o.text("metrics_path")
	params.none("a probe has no such parameter", "hostname", "debug")
	params.rest()
	labels := e.relabel(o)
	o.none("prober keeps all metrics", "metric_relabel_configs")
	o.ignore("Prometheus uses it to reach the exporter", "scheme", "tls_config", "basic_auth", "authorization", "oauth2", "bearer_token", "bearer_token_file", "proxy_url", "honor_labels", "honor_timestamps",
		"follow_redirects", "enable_http2", "http_headers", "sample_limit", "label_limit", "target_limit", "body_size_limit", "scrape_protocols", "enable_compression", "label_name_length_limit",
		"label_value_length_limit", "track_timestamps_staleness", "scrape_classic_histograms", "keep_dropped_targets")
	lists := e.lists(o, labels)
	for _, module := range modules {
		m := e.modules[module]
		if m == nil {
			e.p.noEqual(params.at("module"), "the module %.60q is not in the files: its targets are not imported", module)
			continue
		}
		e.used[module] = true
		probe := m.probe
		probe.period = period
		if limit := max(timeout-500*time.Millisecond, 100*time.Millisecond); probe.timeout == 0 || probe.timeout > limit {
			probe.timeout = limit
		}
		for _, list := range lists {
			if e.p.full(list.at) {
				return
			}
			g := list
			g.static, g.labels = slices.Clone(list.static), maps.Clone(list.labels)
			g.name, g.probe, g.module, g.moduleAt = name, probe, module, m.at
			if len(modules) > 1 {
				g.name += "-" + module
			}
			e.p.addGroup(&g)
		}
	}
}

// relabel returns the constant labels of relabel_configs. It skips those that every such job has.
func (e *exporter) relabel(o *object) map[string]string {
	labels := make(map[string]string)
	for _, r := range o.objects("relabel_configs") {
		from, to, value, action := r.strings("source_labels"), r.text("target_label"), r.text("replacement"), r.text("action")
		isReplace := action == "" || action == "replace"
		switch {
		case isReplace && to == "__param_target" && slices.Equal(from, []string{"__address__"}) && !r.has("regex"):
		case isReplace && to == "instance" && (slices.Equal(from, []string{"__param_target"}) || slices.Equal(from, []string{"__address__"})) && !r.has("regex"):
		case isReplace && to == "__address__" && len(from) == 0:
		case isReplace && len(from) == 0 && to != "" && !strings.HasPrefix(to, "__"):
			labels[to] = value
		default:
			e.p.noEqual(r.at(""), "write it as relabel of the group: docs/probe/target-lists.md")
			continue
		}
		r.ignore("it is the default", "separator", "modulus")
		r.rest()
	}
	return labels
}

// lists returns a group without a name and a probe for each list of targets of a job.
func (e *exporter) lists(o *object, labels map[string]string) (all []group) {
	add := func(at position, own []pair, set func(g *group)) {
		g := group{entry: entry{at: at}, labels: maps.Clone(labels)}
		for _, l := range own {
			g.labels[l.key] = l.value
		}
		set(&g)
		all = append(all, g)
	}
	for _, s := range o.objects("static_configs") {
		add(s.at(""), s.pairs("labels"), func(g *group) { g.static = s.strings("targets") })
		s.rest()
	}
	for _, s := range o.objects("file_sd_configs") {
		add(s.at(""), nil, func(g *group) { g.files = s.strings("files") })
		if slices.ContainsFunc(s.strings("files"), func(f string) bool { return !strings.HasPrefix(f, "/") }) {
			e.p.differs(s.at("files"), "a relative path is from the folder of prober.yaml")
		}
		s.ignore("prober reads changed files at once", "refresh_interval")
		s.rest()
	}
	for _, s := range o.objects("http_sd_configs") {
		list := fields{{"url", s.text("url")}}.with("bearerTokenFile", s.object("authorization").text("credentials_file"))
		list = list.with("refresh", max(promDuration(s, "refresh_interval", time.Minute), time.Second))
		add(s.at(""), nil, func(g *group) { g.http = []fields{list} })
		s.none("a list has bearerTokenFile only", "basic_auth", "oauth2", "tls_config", "proxy_url", "bearer_token")
		s.rest()
	}
	for _, s := range o.objects("dns_sd_configs") {
		e.dnsList(s, add)
	}
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		if name := o.n.Content[i].Value; strings.HasSuffix(name, "_sd_configs") && !o.used[name] {
			o.none("no source of targets asks it: http and command list targets", name)
		}
	}
	return all
}

// dnsList adds a group for names with SRV records.
func (e *exporter) dnsList(s *object, add func(at position, own []pair, set func(g *group))) {
	refresh := max(promDuration(s, "refresh_interval", 30*time.Second), time.Second)
	names := s.strings("names")
	if kind := s.text("type"); kind != "" && kind != "SRV" {
		e.p.noEqual(s.at("type"), "only SRV records list targets")
		s.text("port")
		return
	}
	add(s.at(""), nil, func(g *group) {
		for _, name := range names {
			g.dns = append(g.dns, fields{{"srv", name}, {"refresh", refresh}})
		}
	})
	s.ignore("SRV records have ports", "port")
	s.rest()
}
