package format

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/daeace23/prober/config"
)

const (
	mailProbes = 50
	mailBytes  = 256 << 10
)

// Mail returns a mail in plain text and HTML. Messages about the same group form one thread.
func Mail(m *Message, spec *config.MailReceiver) ([]byte, error) {
	return m.renderWithin(mailProbes, mailBytes, func(m *Message) ([]byte, error) {
		host := "localhost"
		if from, err := mail.ParseAddress(spec.From); err == nil {
			host = from.Address[strings.LastIndexByte(from.Address, '@')+1:]
		}
		var b bytes.Buffer
		parts := multipart.NewWriter(&b)
		for _, field := range [][2]string{
			{"From", spec.From},
			{"To", strings.Join(spec.To, ",\r\n ")},
			{"Subject", subject(m.Title)},
			{"Date", m.Time.Format(time.RFC1123Z)},
			{"Message-ID", fmt.Sprintf("<%s.%s@%s>", m.ID, rand.Text(), host)},
			{"References", fmt.Sprintf("<%s@%s>", m.ID, host)},
			{"Auto-Submitted", "auto-generated"},
			{"MIME-Version", "1.0"},
			{"Content-Type", "multipart/alternative; boundary=" + parts.Boundary()},
		} {
			fmt.Fprintf(&b, "%s: %s\r\n", field[0], field[1])
		}
		b.WriteString("\r\n")
		err := errors.Join(addPart(parts, "text/plain", m.look().symbol+" "+m.Title+"\n\n"+m.mailText()), addPart(parts, "text/html", m.mailHTML()), parts.Close())
		return b.Bytes(), err
	})
}

// subject returns the value of the field Subject. A target may have written a part of title: none of it is an
// encoded word.
func subject(title string) string {
	encoded := mime.QEncoding.Encode("utf-8", "[prober] "+strings.ReplaceAll(title, "=?", "= ?"))
	return strings.ReplaceAll(encoded, "?= =?", "?=\r\n =?") // a line each
}

// addPart adds an alternative of a mail.
func addPart(parts *multipart.Writer, contentType, text string) error {
	part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {contentType + "; charset=utf-8"}, "Content-Transfer-Encoding": {"quoted-printable"}})
	if err != nil {
		return err
	}
	body := quotedprintable.NewWriter(part)
	_, err = io.WriteString(body, strings.ReplaceAll(text, "\n", "\r\n"))
	return errors.Join(err, body.Close())
}

// mailText returns the body as plain text.
func (m *Message) mailText() string {
	return strings.TrimSuffix(m.plain(), m.footer()) + "-- \n" + m.footer() + "\n"
}

// mailHTML returns the body as HTML, with styles that mail programs keep.
func (m *Message) mailHTML() string {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html><body style="font-family: sans-serif">` + "\n")
	fmt.Fprintf(&b, "<h2 style=\"color: %s\">%s %s</h2>\n", m.look().hex(), m.look().symbol, htmlText.Replace(m.Title))
	for i := range m.Probes {
		p := &m.Probes[i]
		fmt.Fprintf(&b, "<div style=\"border-left: 4px solid %s; padding-left: 8px; margin-bottom: 16px\"><strong>%s</strong>", p.look().hex(), htmlText.Replace(p.headline()))
		for _, f := range p.facts() {
			b.WriteString("<br>\n" + f.html())
		}
		if p.URL != "" {
			b.WriteString("<br>\n" + htmlLink(p.URL))
		}
		b.WriteString("</div>\n")
	}
	b.WriteString("<p>" + htmlText.Replace(m.footer()) + "</p></body></html>\n")
	return b.String()
}
