package format

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"github.com/daeace23/prober/config"
)

const (
	mailProbes = 50
	mailBytes  = 256 << 10
)

// Mail returns a plain-text mail. Messages about the same group form one thread.
func Mail(m *Message, spec *config.MailReceiver) ([]byte, error) {
	return m.renderWithin(mailProbes, mailBytes, func(m *Message) ([]byte, error) {
		host := "localhost"
		if from, err := mail.ParseAddress(spec.From); err == nil {
			host = from.Address[strings.LastIndexByte(from.Address, '@')+1:]
		}
		var b bytes.Buffer
		for _, field := range [][2]string{
			{"From", spec.From},
			{"To", strings.Join(spec.To, ",\r\n ")},
			{"Subject", mime.QEncoding.Encode("utf-8", "[prober] "+m.Title)},
			{"Date", m.Time.Format(time.RFC1123Z)},
			{"Message-ID", fmt.Sprintf("<%s.%s@%s>", m.ID, rand.Text(), host)},
			{"References", fmt.Sprintf("<%s@%s>", m.ID, host)},
			{"Auto-Submitted", "auto-generated"},
			{"MIME-Version", "1.0"},
			{"Content-Type", "text/plain; charset=utf-8"},
			{"Content-Transfer-Encoding", "quoted-printable"},
		} {
			fmt.Fprintf(&b, "%s: %s\r\n", field[0], field[1])
		}
		b.WriteString("\r\n")
		body := quotedprintable.NewWriter(&b)
		_, err := body.Write([]byte(strings.ReplaceAll(plainBody(m), "\n", "\r\n")))
		if err == nil {
			err = body.Close()
		}
		return b.Bytes(), err
	})
}

// plainBody returns the body of m as plain text.
func plainBody(m *Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.Title)
	for i := range m.Probes {
		p := &m.Probes[i]
		fmt.Fprintf(&b, "\n%s\n", p.headline())
		for _, line := range []string{p.cause(), p.Explain, p.URL} {
			if line != "" {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
	}
	if more := m.omittedLine(); more != "" {
		fmt.Fprintf(&b, "\n%s\n", more)
	}
	fmt.Fprintf(&b, "\n-- \nprober on %s\n", m.Host)
	return b.String()
}
