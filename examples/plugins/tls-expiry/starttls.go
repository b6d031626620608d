package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

const (
	maxLine  = 4 << 10 // bytes
	maxLines = 100     // of one reply
)

// upgrade carries out a protocol until TLS begins.
type upgrade func(p *plain) error

// upgradeOf returns the upgrade of a name, or nil.
func upgradeOf(name string) (upgrade, error) {
	switch name {
	case "":
		return nil, nil
	case "ftp":
		return ftp, nil
	case "imap":
		return imap, nil
	case "ldap":
		return ldap, nil
	case "pop3":
		return pop3, nil
	case "postgres":
		return postgres, nil
	case "smtp":
		return smtp, nil
	default:
		return nil, fmt.Errorf("config.starttls: unknown protocol %.40q; known: ftp, imap, ldap, pop3, postgres, smtp", name)
	}
}

// plain is a connection before TLS.
type plain struct {
	io.Writer
	r *bufio.Reader
}

// speak carries out an upgrade on conn.
func speak(conn net.Conn, u upgrade) error {
	p := &plain{conn, bufio.NewReaderSize(conn, maxLine)}
	if err := u(p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("the server hung up")
		}
		return err
	}
	// CVE-2011-0411: bytes from before the handshake must not count as bytes after it.
	if p.r.Buffered() > 0 {
		return errors.New("the server continues in clear text")
	}
	return nil
}

func (p *plain) line() (string, error) {
	line, err := p.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errors.New("a line without an end")
	}
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func (p *plain) say(line string) error {
	_, err := io.WriteString(p, line+"\r\n")
	return err
}

// reply reads a reply of SMTP or FTP: "220-one", "220 two".
func (p *plain) reply(code string) (lines []string, err error) {
	for range maxLines {
		line, err := p.line()
		if err != nil {
			return nil, err
		}
		rest, ok := strings.CutPrefix(line, code)
		if !ok || rest != "" && rest[0] != ' ' && rest[0] != '-' {
			return nil, fmt.Errorf("got %.80q, want %s", line, code)
		}
		if rest == "" || rest[0] == ' ' {
			return append(lines, strings.TrimPrefix(rest, " ")), nil
		}
		lines = append(lines, rest[1:])
	}
	return nil, fmt.Errorf("a reply of more than %d lines", maxLines)
}

// until skips lines while skip accepts them; the next one must begin with ok.
func (p *plain) until(ok, skip string) error {
	for range maxLines {
		line, err := p.line()
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, ok):
			return nil
		case skip == "" || !strings.HasPrefix(line, skip):
			return fmt.Errorf("got %.80q, want %q", line, ok)
		}
	}
	return fmt.Errorf("more than %d lines without %q", maxLines, ok)
}

// ask sends a line and reads the reply, which must begin as expected.
func (p *plain) ask(line, code string) ([]string, error) {
	if err := p.say(line); err != nil {
		return nil, err
	}
	return p.reply(code)
}

// smtp is RFC 3207.
func smtp(p *plain) error {
	if _, err := p.reply("220"); err != nil {
		return err
	}
	offers, err := p.ask("EHLO prober.invalid", "250")
	if err != nil {
		return err
	}
	for _, offer := range offers {
		if strings.EqualFold(offer, "STARTTLS") {
			_, err = p.ask("STARTTLS", "220")
			return err
		}
	}
	return errors.New("the server does not offer STARTTLS")
}

// ftp is RFC 4217.
func ftp(p *plain) error {
	if _, err := p.reply("220"); err != nil {
		return err
	}
	_, err := p.ask("AUTH TLS", "234")
	return err
}

// imap is RFC 9051.
func imap(p *plain) error {
	if err := p.until("* OK", ""); err != nil {
		return err
	}
	if err := p.say("a STARTTLS"); err != nil {
		return err
	}
	return p.until("a OK", "* ")
}

// pop3 is RFC 2595.
func pop3(p *plain) error {
	if err := p.until("+OK", ""); err != nil {
		return err
	}
	if err := p.say("STLS"); err != nil {
		return err
	}
	return p.until("+OK", "")
}

// postgres is its SSLRequest.
func postgres(p *plain) error {
	if _, err := p.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return err
	}
	switch answer, err := p.r.ReadByte(); {
	case err != nil:
		return err
	case answer == 'S':
		return nil
	case answer == 'N':
		return errors.New("the server does not offer TLS")
	default:
		return fmt.Errorf("got %q, want S", answer)
	}
}

// startTLS is the ExtendedRequest of RFC 4511, 4.14.
const startTLS = "\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037"

// ldap is RFC 4511: the answer is a message with the same number, and in it an
// ExtendedResponse with the result code 0.
func ldap(p *plain) error {
	if _, err := io.WriteString(p, startTLS); err != nil {
		return err
	}
	message, err := element(p.r, 0x30)
	if err != nil {
		return err
	}
	parts := bytes.NewReader(message)
	if _, err := element(parts, 0x02); err != nil {
		return err
	}
	response, err := element(parts, 0x78)
	if err != nil {
		return err
	}
	code, err := element(bytes.NewReader(response), 0x0a)
	switch {
	case err != nil:
		return err
	case string(code) == "\x02":
		return errors.New("the server does not offer TLS: result code 2, protocolError")
	case string(code) != "\x00":
		return fmt.Errorf("the server refuses with result code 0x%x", code)
	}
	return nil
}

// element reads one element of BER, whose tag is known.
func element(r io.Reader, tag byte) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(head[1])
	if head[0] != tag || n == 0x80 || n > 0x84 {
		return nil, fmt.Errorf("%q is not an LDAP response", head[:])
	}
	if n > 0x80 { // Active Directory spells every length with four bytes
		var long [4]byte
		if _, err := io.ReadFull(r, long[4-(n-0x80):]); err != nil {
			return nil, err
		}
		n = int(min(binary.BigEndian.Uint32(long[:]), maxLine+1))
	}
	if n > maxLine {
		return nil, errors.New("an answer that is too long")
	}
	value := make([]byte, n)
	_, err := io.ReadFull(r, value)
	return value, err
}
