package importcmd

import (
	"strings"
)

// custom returns a receiver with the body of a custom provider as its template.
func (g *gatus) custom(at position, name string, a *object) fields {
	body, method := a.text("body"), a.text("method")
	url := a.text("url")
	a.none("it has no such option", "client")
	switch {
	case !strings.EqualFold(method, "POST"):
		g.p.noEqual(at, "the receiver is not imported: messages are sent by POST")
		return nil
	case environment().MatchString(body) || mentionsSecret(body):
		g.p.noEqual(a.at("body"), "the receiver is not imported: its body may have a secret: use templateFile")
		return nil
	case len(body) > maxBody:
		g.p.noEqual(a.at("body"), "the receiver is not imported: its body has more than %d KiB", maxBody>>10)
		return nil
	}
	if strings.Contains(body, "[RESULT_CONDITIONS]") {
		g.p.noEqual(a.at("body"), "there is no placeholder [RESULT_CONDITIONS]")
	}
	var headers []pair
	kind := ""
	for _, h := range a.pairs("headers") {
		if strings.EqualFold(h.key, "Content-Type") {
			kind = h.value
			continue
		}
		headers = append(headers, h)
	}
	f := fields{{"format", "template"}, {"urlFile", g.p.secretFile(at, name+"-url", "the URL of the webhook", url)}}
	f = g.p.hookHeaders(at, name, f, headers)
	f = f.set("template", customTemplate(body, a.object("placeholders").object("ALERT_TRIGGERED_OR_RESOLVED")))
	return incidents(hook(f.with("contentType", kind)))
}

// customTemplate returns a body of Gatus as a template of a message about one probe.
func customTemplate(body string, states *object) string {
	word := func(state string) string {
		if text := states.text(state); text != "" && len(text) <= 100 {
			return plainTemplate(text)
		}
		return state
	}
	probe := func(field string) string { return "{{range .Probes}}{{." + field + "}}{{end}}" }
	return strings.NewReplacer(
		"[ALERT_TRIGGERED_OR_RESOLVED]", `{{if eq .Status "resolved"}}`+word("RESOLVED")+"{{else}}"+word("TRIGGERED")+"{{end}}",
		"[ALERT_DESCRIPTION]", "{{.Title}}", "[RESULT_ERRORS]", probe("Text"), "[RESULT_CONDITIONS]", "",
		"[ENDPOINT_NAME]", probe("Pod"), "[ENDPOINT_GROUP]", probe("Namespace"), "[ENDPOINT_URL]", probe("Target"),
	).Replace(plainTemplate(body))
}

// plainTemplate returns a template that writes text.
func plainTemplate(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }
