package format

import (
	"encoding/json"
	"strings"
)

// The limits of Slack, in characters, and our limits below them.
const (
	slackHeader = 150
	slackText   = 3000
	slackProbes = 20 // Slack accepts 50 blocks
	slackBytes  = 100 << 10
)

type slackString struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // only of plain_text
	Verbatim bool   `json:"verbatim,omitempty"` // only of mrkdwn: Slack turns no texts into links
}

type slackBlock struct {
	Type     string         `json:"type"`
	Text     *slackString   `json:"text,omitempty"`
	Elements []*slackString `json:"elements,omitempty"`
}

type slackMessage struct {
	Text        string       `json:"text"` // for desktop notifications, and clients without blocks
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
	Blocks      []slackBlock `json:"blocks"`
}

// slackEscape escapes the characters that begin mentions and links in Slack texts.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackPlain returns a plain_text object with at most most characters.
func slackPlain(text string, most int) *slackString {
	runes := []rune(text)
	if len(runes) > most/5 { // an escape has at most 5 characters
		for n := len(runes); ; n-- {
			if escaped := slackEscape.Replace(string(runes[:n])); len([]rune(escaped)) <= most {
				return &slackString{Type: "plain_text", Text: escaped, Emoji: new(bool)}
			}
		}
	}
	return &slackString{Type: "plain_text", Text: slackEscape.Replace(text), Emoji: new(bool)}
}

// Slack returns the body for an incoming webhook of Slack. Texts of targets are in plain_text objects, which
// have no markup.
func Slack(m *Message) ([]byte, error) {
	return m.renderWithin(slackProbes, slackBytes, func(m *Message) ([]byte, error) {
		out := slackMessage{Text: slackPlain(m.Title, slackText).Text, Blocks: []slackBlock{{Type: "header", Text: slackPlain(m.Title, slackHeader)}}}
		for i := range m.Probes {
			p := &m.Probes[i]
			lines := []string{p.headline()}
			if cause := p.cause(); cause != "" {
				lines = append(lines, cause)
			}
			out.Blocks = append(out.Blocks, slackBlock{Type: "section", Text: slackPlain(strings.Join(append(lines, p.Explain), "\n"), slackText)})
			if p.URL != "" {
				link := &slackString{Type: "mrkdwn", Text: "<" + slackEscape.Replace(p.URL) + "|show the probe>", Verbatim: true}
				out.Blocks = append(out.Blocks, slackBlock{Type: "context", Elements: []*slackString{link}})
			}
		}
		foot := strings.TrimPrefix(m.omittedLine()+", prober on "+m.Host, ", ")
		out.Blocks = append(out.Blocks, slackBlock{Type: "context", Elements: []*slackString{slackPlain(foot, slackText)}})
		return json.Marshal(&out)
	})
}
