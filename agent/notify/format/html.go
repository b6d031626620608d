package format

import "strings"

// htmlText escapes the characters with a meaning in a text of HTML.
var htmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// htmlAttribute escapes the characters with a meaning in a quoted attribute of HTML.
var htmlAttribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// html returns the fact as a line of HTML. A code has no links of its own.
func (f fact) html() string {
	if f.code {
		return f.name + ": <code>" + htmlText.Replace(f.text) + "</code>"
	}
	return f.name + ": " + htmlText.Replace(f.text)
}

// htmlLink returns a link to the page of a probe.
func htmlLink(page string) string {
	return `<a href="` + htmlAttribute.Replace(page) + `">show the probe</a>`
}
