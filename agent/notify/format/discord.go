package format

import (
	"strings"
	"time"
)

// The limits of Discord, in characters.
const (
	discordProbes = 24 // Discord accepts 25 fields
	discordTitle  = 256
	discordValue  = 1024
	discordBytes  = 6000 // of all texts, so that as many bytes with markup are within
)

type discordMessage struct {
	Username string          `json:"username"`
	Embeds   []discordEmbed  `json:"embeds"`
	Mentions discordMentions `json:"allowed_mentions"`
}

// discordMentions allows no mention.
type discordMentions struct {
	Parse []string `json:"parse"`
}

type discordEmbed struct {
	Title     string         `json:"title"`
	URL       string         `json:"url,omitempty"`
	Color     int            `json:"color"`
	Timestamp string         `json:"timestamp"`
	Fields    []discordField `json:"fields,omitempty"`
	Footer    discordFooter  `json:"footer"`
}

type discordField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type discordFooter struct {
	Text string `json:"text"`
}

// discordText escapes Discord's Markdown.
var discordText = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, "`", "\\`", `|`, `\|`, `<`, `\<`, `>`, `\>`, `[`, `\[`, `]`, `\]`)

// discordCode replaces the character that ends a code. In a code nothing else has a meaning.
var discordCode = strings.NewReplacer("`", "ˋ")

// discord returns a message with one embed, in the color of the worst state.
func discord(in *Input) (*Request, error) {
	return in.post(in.renderWithin(discordProbes, discordBytes, func(m *Message) ([]byte, error) {
		embed := discordEmbed{
			Title: cutEscaped(m.look().symbol+" "+m.Title, discordTitle, discordText), URL: m.page(), Color: m.look().color, Timestamp: m.Time.Format(time.RFC3339),
			Footer: discordFooter{m.footer()},
		}
		for i := range m.Probes {
			p := &m.Probes[i]
			embed.Fields = append(embed.Fields, discordField{cutEscaped(p.headline(), discordTitle, discordText), p.discordValue()})
		}
		return encodeJSON(&discordMessage{"prober", []discordEmbed{embed}, discordMentions{[]string{}}})
	}))
}

// discordValue returns the facts of p that are within the limit.
func (p *Probe) discordValue() string {
	var value string
	for _, f := range p.facts() {
		line := f.name + ": " + discordText.Replace(f.text)
		if f.code {
			line = f.name + ": `" + discordCode.Replace(f.text) + "`"
		}
		if units(value+line) < discordValue {
			value += line + "\n"
		}
	}
	if link := "[show the probe](" + p.URL + ")"; p.URL != "" && units(value+link) <= discordValue {
		value += link
	}
	return strings.TrimSuffix(value, "\n")
}
