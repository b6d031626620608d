package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
)

const (
	matrixProbes = 50
	matrixBytes  = 48 << 10 // Matrix accepts events of 64 KiB
)

type matrixMessage struct {
	MsgType   string   `json:"msgtype"` // m.text: clients do not ring for an m.notice
	Body      string   `json:"body"`
	Format    string   `json:"format"`
	Formatted string   `json:"formatted_body"`
	Mentions  struct{} `json:"m.mentions"` // nobody, also if the text has the name of a user
}

// matrix returns an event for a room.
func matrix(in *Input) (*Request, error) {
	body, err := in.renderWithin(matrixProbes, matrixBytes, func(m *Message) ([]byte, error) {
		title := m.look().symbol + " " + m.Title
		return encodeJSON(&matrixMessage{MsgType: "m.text", Body: title + "\n\n" + m.plain(), Format: "org.matrix.custom.html", Formatted: m.matrixHTML()})
	})
	to := in.URL.JoinPath("_matrix/client/v3/rooms", url.PathEscape(in.Spec.Room), "send/m.room.message", in.transaction())
	return &Request{Method: http.MethodPut, URL: to, Body: body}, err
}

// transaction returns an ID of the message, by which a server drops a message that it has already got, when its
// answer was lost. Another message must have another ID.
func (m *Message) transaction() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s %v\n", m.ID, m.Status, m.Counts)
	if m.Repeated || m.Status == Test {
		fmt.Fprintln(sum, m.Time.UnixMilli())
	}
	for i := range m.Probes {
		p := &m.Probes[i]
		fmt.Fprintf(sum, "%q %s %s %s %d %d %d %q\n", p.name(), p.Status, p.State, p.Worst, p.Since.UnixMilli(), p.Ended.UnixMilli(), p.Times, p.cause())
	}
	return "prober-" + hex.EncodeToString(sum.Sum(nil)[:16])
}

func (m *Message) matrixHTML() string {
	var b bytes.Buffer
	colored := func(l look, text string) string {
		return fmt.Sprintf(`<strong><font data-mx-color="%[1]s" color="%[1]s">%[2]s</font></strong>`, l.hex(), htmlText.Replace(text))
	}
	b.WriteString("<p>" + colored(m.look(), m.look().symbol+" "+m.Title) + "</p>")
	for i := range m.Probes {
		p := &m.Probes[i]
		b.WriteString("<p>" + colored(p.look(), p.headline()))
		for _, f := range p.facts() {
			b.WriteString("<br>" + f.html())
		}
		if p.URL != "" {
			b.WriteString("<br>" + htmlLink(p.URL))
		}
		b.WriteString("</p>")
	}
	b.WriteString("<p>" + htmlText.Replace(m.footer()) + "</p>")
	return b.String()
}
