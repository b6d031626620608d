package format

import "strings"

// htmlText escapes the characters with a meaning in a text of HTML.
var htmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// htmlAttribute escapes the characters with a meaning in a quoted attribute of HTML.
var htmlAttribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// html returns the fact as a line of HTML. A code has no links of its own, and another text that is a URL is one.
func (f fact) html() string {
	text := htmlText.Replace(f.text)
	switch {
	case f.code:
		text = "<code>" + text + "</code>"
	case strings.HasPrefix(f.text, "https://"), strings.HasPrefix(f.text, "http://"):
		text = `<a href="` + htmlAttribute.Replace(f.text) + `">` + text + "</a>"
	}
	return f.name + ": " + text
}

// htmlLink returns a link to the page of a probe.
func htmlLink(page string) string {
	return `<a href="` + htmlAttribute.Replace(page) + `">show the probe</a>`
}
