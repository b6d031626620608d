package publicpage

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// colors are the colors of the states on a light and on a dark page. White text on the first one has enough contrast.
var colors = map[string][2]string{
	"success": {"#1a7336", "#4fbf6d"}, "warning": {"#8a5a00", "#e0b040"}, "failure": {"#c01f2a", "#ff7d76"}, "unknown": {"#5a6472", "#a3adb8"},
}

// colorOf returns the color of a state on a light page.
func colorOf(state string) string {
	if c, ok := colors[state]; ok {
		return c[0]
	}
	return colors["unknown"][0]
}

const (
	maxBadgeName = 60  // characters
	charWidth    = 6.6 // of a character, at most, for most characters of the font
	wideWidth    = 12  // of a character that is no letter of Latin, Greek or Cyrillic
	badgePadding = 7
)

// badge returns a badge: a name, a state and its uptime.
func badge(name, word, state, uptime string) []byte {
	name = clean(name, maxBadgeName)
	value := word
	if uptime != "" && uptime != "-" {
		value += " " + uptime
	}
	left, right := width(name)+2*badgePadding, width(value)+2*badgePadding
	label := escaped(name + ": " + value)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" viewBox="0 0 %[1]d 20" role="img" aria-label="%[2]s"><title>%[2]s</title>`+
		`<rect width="%[1]d" height="20" rx="4" fill="#3c444d"/><path d="M%[3]d 0h%[4]da4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-%[4]dz" fill="%[5]s"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" aria-hidden="true">`,
		left+right, label, left, right-4, colorOf(state))
	for _, t := range []struct {
		text  string
		at, w int
	}{{name, badgePadding, left - 2*badgePadding}, {value, left + badgePadding, right - 2*badgePadding}} {
		fmt.Fprintf(&b, `<text x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`, t.at, t.w, escaped(t.text))
	}
	b.WriteString("</g></svg>\n")
	return b.Bytes()
}

// width returns the width of text in a badge, in pixels. The text is stretched to it.
func width(text string) int {
	w := 0.0
	for _, r := range text {
		if r >= 0x0530 {
			w += wideWidth
		} else {
			w += charWidth
		}
	}
	return int(w)
}

// escaped returns text for XML. It replaces characters that XML does not allow.
func escaped(text string) string {
	var b bytes.Buffer
	b.Grow(len(text))
	_ = xml.EscapeText(&b, []byte(text)) // a buffer returns no error
	return b.String()
}

// icon returns the icon of the page, as on the page of the agent.
func icon(state string) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="%s"/>`+
		`<path d="%s" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></svg>`+"\n", colorOf(state), markOf(state))
}

// marks are the shapes of the states, so that they differ in more than their color.
var marks = map[string]string{
	"success": "M5 8.3 7.2 10.5 11 6", "failure": "M5.5 5.5 10.5 10.5M10.5 5.5 5.5 10.5", "warning": "M8 4.5V8.7M8 11v.4",
	"unknown": "M6.2 6.3a1.8 1.8 0 1 1 2.6 1.6Q8 8.4 8 9.2M8 11.2v.3", "paused": "M6 5v6M10 5v6", "maintenance": "M5 8h6",
}

func markOf(state string) string { return marks[shown(state)] }
