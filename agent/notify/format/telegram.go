package format

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// The limits of Telegram.
const (
	telegramProbes = 20
	telegramText   = 4096 // characters of a text without its markup, so that as many bytes with markup are within
)

type telegramMessage struct {
	ChatID    any                  `json:"chat_id"` // a number, or the name of a channel
	Text      string               `json:"text"`
	ParseMode string               `json:"parse_mode"`
	Preview   telegramLinkPreviews `json:"link_preview_options"`
}

type telegramLinkPreviews struct {
	Disabled bool `json:"is_disabled"`
}

// telegram returns a message of a bot, in Telegram's HTML.
func telegram(in *Input) (*Request, error) {
	var chat any = json.Number(in.Spec.ChatID)
	if strings.HasPrefix(in.Spec.ChatID, "@") {
		chat = in.Spec.ChatID
	}
	text, err := in.renderWithin(telegramProbes, telegramText, func(m *Message) ([]byte, error) { return m.telegramText(), nil })
	if err != nil {
		return nil, err
	}
	body, err := encodeJSON(&telegramMessage{chat, string(text), "HTML", telegramLinkPreviews{true}})
	return in.postTo(in.URL.JoinPath("bot"+url.PathEscape(in.Secret), "sendMessage"), body, err)
}

func (m *Message) telegramText() []byte {
	var b bytes.Buffer
	// In a code Telegram makes no mentions, commands and links of what a target may have written.
	b.WriteString(m.look().symbol + " <code>" + htmlText.Replace(m.Title) + "</code>\n")
	for i := range m.Probes {
		p := &m.Probes[i]
		b.WriteString("\n<b>" + htmlText.Replace(p.headline()) + "</b>\n")
		for _, f := range p.facts() {
			b.WriteString(f.html() + "\n")
		}
		if p.URL != "" {
			b.WriteString(htmlLink(p.URL) + "\n")
		}
	}
	b.WriteString("\n" + htmlText.Replace(m.footer()))
	return b.Bytes()
}
