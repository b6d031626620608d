package importcmd

import (
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
)

// imported returns prober.yaml and the manifests for an input, and the plan.
func imported(t *testing.T, tool string, files ...input) (outputs []string, p *plan) {
	t.Helper()
	p = newPlan()
	p.withPlugins = true
	i := slices.IndexFunc(importers, func(i importer) bool { return i.tool == tool })
	if err := importers[i].read(p, files); err != nil {
		return nil, p
	}
	file, err := p.render(tool, false)
	if err != nil {
		t.Fatal(err)
	}
	outputs = []string{string(file)}
	for _, name := range sortedKeys(p.manifests) {
		outputs = append(outputs, string(p.manifests[name]))
	}
	return outputs, p
}

// TestSecretsStayOut has inputs with a secret, hunter2, where an importer may miss it.
func TestSecretsStayOut(t *testing.T) {
	gatus := func(endpoint string) string { return "endpoints:\n- {name: a, conditions: [], " + endpoint + "}\n" }
	nagios := func(settings, line, check string) string {
		return "$USER1$=/bin\n" + settings + "\ndefine command {\n command_name foo\n command_line " + line + "\n}\ndefine host {\n host_name h\n _PASSWORD hunter2\n _PORT 80\n _X hunter2\n}\n" +
			"define service {\n host_name h\n service_description s\n check_command foo" + check + "\n}\n"
	}
	blackbox := func(module string) string { return "modules:\n  m: " + module + "\n" }
	cloud := func(fields string) string {
		return `probe { name: "a" targets { host_names: "h" } ` + fields + ` }`
	}
	for _, test := range []struct{ tool, file, text string }{
		{"nagios", "a.cfg", nagios("$USER3$=hunter2", "$USER1$/cat -l $ARG1$", "!$USER3$")},
		{"nagios", "a.cfg", nagios("$USER3$=hunter2", "$USER1$/check_foo -l $ARG1$", "!$USER3$")},
		{"nagios", "a.cfg", nagios("", "$USER1$/check_foo -l $_HOSTPASSWORD$", "")},
		{"nagios", "a.cfg", nagios("", "$USER1$/check_foo -l $_HOSTX$", "")},
		{"nagios", "a.cfg", nagios("$USER3$=hunter2", "$USER1$/check_http -u /$USER3$", "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_http -e Welcome -k "Authorization: Bearer hunter2"`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_http -e Welcome -k "X-Foo: hunter2"`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_http -e Welcome --header=Authorization:hunter2`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_http -e Welcome -P 'password=hunter2'`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_http -P 'pwd=hunter2'`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_tcp -p 6379 -s 'AUTH hunter2'`, "")},
		{"nagios", "a.cfg", nagios("", `$USER1$/check_foo sig=hunter2`, "")},
		{"cloudprober", "a.cfg", cloud(`type: EXTERNAL external_probe { command: "/x --password=hunter2" }`)},
		{"cloudprober", "a.cfg", cloud(`type: TCP tcp_probe { port: 1 } alert { notify { command: "/x --token=hunter2" } }`)},
		{"cloudprober", "a.cfg", cloud(`type: HTTP http_probe { relative_url: "/a;token=hunter2" }`)},
		{"cloudprober", "a.cfg", cloud(`type: HTTP http_probe { relative_url: "/a" proxy_url: "http://p/?token=hunter2" }`)},
		{"cloudprober", "a.cfg", cloud(`type: TCP tcp_probe { port: 1 } additional_label { key: "password" value: "hunter2" }`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/", body: '{"user":"$U","password":"hunter2"}'`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/", body: '{"password":"$U","pin":"hunter2"}'`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/", headers: {X-Foo: "Bearer hunter2"}`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/", headers: {X-Foo: "$A token=hunter2"}`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?accessToken=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?sig=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?pwd=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?auth[token]=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?%74oken=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "http://h/?a=1;token=hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "tcp://h:25", body: "AUTH PLAIN hunter2"`)},
		{"gatus", "a.yaml", gatus(`url: "tcp://h:110", body: "PASS hunter2"`)},
		{"monit", "monitrc", `check host a with address h if failed port 6379 send "AUTH hunter2\r\n" expect "OK" then alert`},
		{"monit", "monitrc", `check host a with address h if failed port 143 send "a1 LOGIN me hunter2\r\n" expect "OK" then alert`},
		{"monit", "monitrc", `check host a with address h if failed port 25 send "AUTH LOGIN" expect "334" send "hunter2" then alert`},
		{"monit", "monitrc", `check program a with path "/usr/lib/check_mysql -p hunter2" if status != 0 then alert`},
		{"blackbox", "a.yml", blackbox(`{prober: tcp, tcp: {query_response: [{send: "AUTH hunter2"}]}}`)},
		{"blackbox", "a.yml", blackbox(`{prober: tcp, tcp: {query_response: [{send: "AUTH LOGIN"}, {expect: "334"}, {send: "hunter2"}]}}`)},
		{"blackbox", "a.yml", blackbox(`{prober: http, http: {body: "pwd=hunter2"}}`)},
		{"blackbox", "a.yml", blackbox(`{prober: http, http: {headers: {X-Foo: "Bearer hunter2"}}}`)},
		{"blackbox", "a.yml", blackbox(`{prober: http, http: {proxy_url: "http://hunter2@p/"}}`)},
	} {
		outputs, p := imported(t, test.tool, input{test.file, []byte(test.text)})
		if len(outputs) == 0 {
			t.Errorf("not imported:\n%s", test.text)
		}
		if text := strings.Join(outputs, ""); strings.Contains(text, "hunter2") {
			t.Errorf("%s\n%s", test.text, text)
		}
		if !slices.ContainsFunc(p.findings, func(f Finding) bool { return f.Kind == secret || f.Kind == noEqual }) {
			t.Errorf("%s: no finding", test.text)
		}
	}
	for _, discovery := range []string{"https://u:hunter2@h/sd", "https://h/sd?token=hunter2"} {
		text := "scrape_configs:\n- {job_name: a, metrics_path: /probe, params: {module: [m]}, http_sd_configs: [{url: '" + discovery + "'}]}\n"
		outputs, _ := imported(t, "blackbox", input{"a.yml", []byte(blackbox("{prober: icmp}"))}, input{"b.yml", []byte(text)})
		if len(outputs) == 0 || strings.Contains(outputs[0], "hunter2") {
			t.Error(outputs)
		}
	}
}

// TestNoSecretStaysAsItIs has inputs that mention secrets, but have none.
func TestNoSecretStaysAsItIs(t *testing.T) {
	for _, test := range []struct{ tool, file, text, want string }{
		{"gatus", "a.yaml", `endpoints: [{name: a, url: "http://h/reset-password?lang=en", conditions: ["[BODY] == pat(*Your password*)"]}]`, "http://h/reset-password?lang=en"},
		{"gatus", "a.yaml", `endpoints: [{name: a, url: "http://h/", body: '{"password": "$PW", "user": "me"}', conditions: []}]`, `'{"password": "${env:PW}", "user": "me"}'`},
		{"gatus", "a.yaml", `endpoints: [{name: a, url: "tcp://h:25", body: "EHLO prober", conditions: []}]`, "send: EHLO prober"},
		{"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/check_x -p $_HOSTPORT$ -w 80%\n}\ndefine host {\n host_name h\n _PORT 80\n check_command c\n}\n", "'80', -w, 80%"},
		{"blackbox", "a.yml", `modules: {m: {prober: grpc, grpc: {service: token.v1.TokenService}}}`, "token.v1.TokenService"},
	} {
		p := newPlan()
		i := slices.IndexFunc(importers, func(i importer) bool { return i.tool == test.tool })
		if err := importers[i].read(p, []input{{test.file, []byte(test.text)}}); err != nil {
			t.Fatal(err)
		}
		file, err := p.accepted(t.Context(), test.tool, nil)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(file), `"80"`, `'80'`), test.want) {
			t.Errorf("%s: %v, want %s\n%s", test.text, err, test.want, file)
		}
	}
}

// values matches a value in an input: the rest of a directive of Nagios, a string in quotes, or a word after
// a colon.
var values = map[string]*regexp.Regexp{
	"nagios": regexp.MustCompile(`(?m)^\s*[a-z_A-Z]+[ \t]+([^{}\n]+)$|^\$USER[0-9]+\$=(.*)$`),
	"":       regexp.MustCompile(`"([^"\n]*)"|'([^'\n]*)'|:[ \t]+([^\s{\["'#|>][^\n,}\]#]*)`),
	"monit":  regexp.MustCompile(`"([^"\n]*)"|'([^'\n]*)'|[ \t]([a-zA-Z0-9./:-]+)`),
}

// notSecret has the fields of prober.yaml whose values are never secrets: names, paths, and what a response
// must have.
var notSecret = []string{
	"name", "namespace", "module", "dependsOn", "uplink", "all", "pod", "file", "files", "folders", "cert", "key", "ca", "allow", "bearerTokenFile", "passwordFile", "tokenFile", "urlFile", "routingKeyFile",
	"expect", "failIfBodyMatchesRegexp", "failIfBodyNotMatchesRegexp", "regexp", "header", "failIfMatchesRegexp", "failIfAllMatchRegexp", "failIfNotMatchesRegexp", "failIfNoneMatchesRegexp", "equals", "matches", "path", "queryName", "serverName", "srv", "credentials", "version",
}

// TestPlantedSecretStaysOut plants a secret into each value of the golden inputs, one after
// the other, in one of three forms.
func TestPlantedSecretStaysOut(t *testing.T) {
	const planted = "Hunter2x9"
	plants := []func(string) string{
		func(string) string { return "password=" + planted },
		func(old string) string { return old + "?token=" + planted },
		func(old string) string { return old + " --api-key=" + planted },
	}
	count := 0
	for _, i := range importers {
		archives, err := filepath.Glob(filepath.Join("testdata", i.tool, "*.txtar"))
		if err != nil || len(archives) == 0 {
			t.Fatal("no archives", err)
		}
		for _, archive := range archives {
			files := inputsOf(t, archive)
			for f := range files {
				old := string(files[f].text)
				for n, at := range valuesOf(i.tool, old) {
					if n%plantEvery != 0 {
						continue
					}
					all := slices.Clone(files)
					all[f].text = []byte(old[:at[0]] + plants[n%len(plants)](old[at[0]:at[1]]) + old[at[1]:])
					outputs, _ := imported(t, i.tool, all...)
					count += len(outputs)
					for _, output := range outputs {
						for _, field := range fieldsWith(t, output, planted) {
							t.Errorf("%s: %s: %.200q: the field %s has the secret", archive, files[f].name, old[at[0]:at[1]], field)
						}
					}
				}
			}
		}
	}
	if count < 1000/plantEvery {
		t.Errorf("%d files were written", count)
	}
}

// inputsOf returns the inputs of an archive.
func inputsOf(t *testing.T, name string) (files []input) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name != "stderr" && f.Name != "prober.yaml" && path.Dir(f.Name) == "." {
			files = append(files, input{f.Name, f.Data})
		}
	}
	return files
}

// valuesOf returns the places of the values in an input.
func valuesOf(tool, text string) (all [][]int) {
	pattern := values[tool]
	if pattern == nil {
		pattern = values[""]
	}
	for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				all = append(all, m[i:i+2])
			}
		}
	}
	return all
}

// fieldsWith returns the fields of a YAML file that have a text and may be secret.
func fieldsWith(t *testing.T, file, text string) []string {
	file = reference().ReplaceAllString(file, "") // their paths are not secret
	if !strings.Contains(file, text) {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(file), &root); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	var visit func(n *yaml.Node, field string)
	visit = func(n *yaml.Node, field string) {
		if slices.Contains(notSecret, field) {
			return
		}
		if strings.Contains(n.Value, text) {
			found[field] = true
		}
		for i, c := range n.Content {
			switch {
			case n.Kind != yaml.MappingNode:
				visit(c, field)
			case i%2 == 1:
				visit(c, n.Content[i-1].Value)
			}
		}
	}
	visit(&root, "")
	return slices.Sorted(maps.Keys(found))
}

// TestSecretsOfTheHostAreReported refers to a file and to a variable of the host.
func TestSecretsOfTheHostAreReported(t *testing.T) {
	for _, test := range []struct{ tool, file, text, want string }{
		{"blackbox", "a.yml", "modules: {m: {prober: http, http: {bearer_token_file: /root/.ssh/id_rsa}}}", "file:/root/.ssh/id_rsa"},
		{"gatus", "a.yaml", `endpoints: [{name: a, url: "http://h/", headers: {X-A: $AWS_SECRET_ACCESS_KEY}, conditions: []}]`, "env:AWS_SECRET_ACCESS_KEY"},
	} {
		_, p := imported(t, test.tool, input{test.file, []byte(test.text)})
		if !p.secrets[test.want] || !slices.ContainsFunc(p.findings, func(f Finding) bool { return f.Kind == secret && strings.Contains(f.Text, test.want) }) {
			t.Errorf("%s: %v", test.want, p.findings)
		}
	}
}
