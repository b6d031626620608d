package format

import (
	"encoding/json"
	"strings"
)

const (
	teamsProbes = 15
	teamsBytes  = 24 << 10 // Teams accepts 28 KiB
)

// teamsRun is a TextRun, which has no Markdown.
type teamsRun struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Weight   string `json:"weight,omitempty"`
	Color    string `json:"color,omitempty"`
	IsSubtle bool   `json:"isSubtle,omitempty"`
	FontType string `json:"fontType,omitempty"`
	Size     string `json:"size,omitempty"`
}

type teamsBlock struct {
	Type      string     `json:"type"`
	Inlines   []teamsRun `json:"inlines"`
	Separator bool       `json:"separator,omitempty"`
	Spacing   string     `json:"spacing,omitempty"`
}

type teamsAction struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

type teamsCard struct {
	Schema  string            `json:"$schema"`
	Type    string            `json:"type"`
	Version string            `json:"version"`
	MSTeams map[string]string `json:"msteams"`
	Body    []teamsBlock      `json:"body"`
	Actions []teamsAction     `json:"actions,omitempty"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	ContentURL  *string   `json:"contentUrl"`
	Content     teamsCard `json:"content"`
}

type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

// teamsText escapes the templates and dates of Adaptive Cards.
func teamsText(text string) string {
	for strings.Contains(text, "{{") { // in "{{{" are two
		text = strings.ReplaceAll(text, "{{", "{ {")
	}
	return strings.ReplaceAll(text, "${", "$ {")
}

func textRun(text string) teamsRun { return teamsRun{Type: "TextRun", Text: teamsText(text)} }

// teamsColors has the color by state.
var teamsColors = map[string]string{"failure": "Attention", "unknown": "Warning", "warning": "Warning", "success": "Good"}

// teams returns the body for a webhook of Teams' Workflows: a message with an Adaptive Card. All texts are in
// TextRuns, which have no Markdown.
func teams(m *Message) ([]byte, error) {
	return m.renderWithin(teamsProbes, teamsBytes, func(m *Message) ([]byte, error) {
		title := textRun(m.look().symbol + " " + m.Title)
		title.Weight, title.Size, title.Color = "Bolder", "Medium", teamsColors[m.Severity()]
		card := teamsCard{
			Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", MSTeams: map[string]string{"width": "Full"},
			Body: []teamsBlock{{Type: "RichTextBlock", Inlines: []teamsRun{title}}},
		}
		for i := range m.Probes {
			p := &m.Probes[i]
			head := textRun(p.headline())
			head.Weight, head.Color = "Bolder", teamsColors[p.severity()]
			card.Body = append(card.Body, teamsBlock{Type: "RichTextBlock", Inlines: []teamsRun{head}, Separator: true})
			for _, f := range p.facts() {
				name, text := textRun(f.name+": "), textRun(f.text)
				name.IsSubtle = true
				if f.code {
					text.FontType = "Monospace"
				}
				card.Body = append(card.Body, teamsBlock{Type: "RichTextBlock", Inlines: []teamsRun{name, text}, Spacing: "None"})
			}
			if p.URL != "" && len(card.Actions) < 5 { // Teams accepts 6
				card.Actions = append(card.Actions, teamsAction{"Action.OpenUrl", p.Pod + " " + p.Container + " " + p.Kind, p.URL})
			}
		}
		foot := textRun(m.footer())
		foot.IsSubtle, foot.Size = true, "Small"
		card.Body = append(card.Body, teamsBlock{Type: "RichTextBlock", Inlines: []teamsRun{foot}, Separator: true})
		return json.Marshal(&teamsMessage{"message", []teamsAttachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: card}}})
	})
}
