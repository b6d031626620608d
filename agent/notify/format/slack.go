package format

import (
	"encoding/json"
	"strings"
)

// The limits of Slack, in characters, and our limits below them.
const (
	slackHeader = 150
	slackText   = 3000
	slackProbes = 19 // Slack shows 20 attachments
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
	Text        string            `json:"text"` // for desktop notifications, and clients without blocks
	UnfurlLinks bool              `json:"unfurl_links"`
	UnfurlMedia bool              `json:"unfurl_media"`
	Blocks      []slackBlock      `json:"blocks"`
	Attachments []slackAttachment `json:"attachments"`
}

// slackAttachment has a bar with a color at its left.
type slackAttachment struct {
	Color  string       `json:"color"`
	Blocks []slackBlock `json:"blocks"`
}

// slackEscape escapes the characters that begin mentions and links in Slack texts.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackPlain returns a plain_text object with at most most characters.
func slackPlain(text string, most int) *slackString {
	return &slackString{Type: "plain_text", Text: cutEscaped(text, most, slackEscape), Emoji: new(bool)}
}

// slack returns the body for an incoming webhook of Slack. Texts of targets are in plain_text objects, which
// have no markup. Each probe is an attachment in the color of its state.
func slack(m *Message) ([]byte, error) {
	return m.renderWithin(slackProbes, slackBytes, func(m *Message) ([]byte, error) {
		title := m.look().symbol + " " + m.Title
		out := slackMessage{Text: slackPlain(title, slackText).Text, Blocks: []slackBlock{{Type: "header", Text: slackPlain(title, slackHeader)}}}
		for i := range m.Probes {
			out.Attachments = append(out.Attachments, slackAttachment{m.Probes[i].look().hex(), slackProbe(&m.Probes[i])})
		}
		foot := slackBlock{Type: "context", Elements: []*slackString{slackPlain(m.footer(), slackText)}}
		out.Attachments = append(out.Attachments, slackAttachment{m.look().hex(), []slackBlock{foot}})
		return json.Marshal(&out)
	})
}

func slackProbe(p *Probe) []slackBlock {
	lines := []string{p.headline()}
	for _, f := range p.facts() {
		lines = append(lines, f.String())
	}
	blocks := []slackBlock{{Type: "section", Text: slackPlain(strings.Join(lines, "\n"), slackText)}}
	if p.URL != "" {
		link := &slackString{Type: "mrkdwn", Text: "<" + slackEscape.Replace(p.URL) + "|show the probe>", Verbatim: true}
		blocks = append(blocks, slackBlock{Type: "context", Elements: []*slackString{link}})
	}
	return blocks
}
