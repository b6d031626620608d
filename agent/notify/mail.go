package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
)

// mailer sends mail to a smarthost.
type mailer struct {
	spec *config.MailReceiver
	dir  string // the configuration file: paths are relative to its folder
	net  dialer
}

func (m *mailer) mergeable() bool { return true }
func (m *mailer) kind() string    { return "mail" }

func (m *mailer) check() error {
	if _, err := tlsSettings(m.dir, m.spec.CA).Config(); err != nil || m.spec.Username == "" {
		return err
	}
	secrets := &secretFiles{dir: m.dir}
	_, err := secrets.read("passwordFile", m.spec.PasswordFile)
	return secrets.hideError(err)
}

// send sends one mail to all addresses.
func (m *mailer) send(ctx context.Context, message *format.Message) (answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.spec.Timeout, fmt.Errorf("no answer within %s", m.spec.Timeout))
	defer cancel()
	secrets := &secretFiles{dir: m.dir}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = secrets.hideError(err)
	}()
	text, err := format.Mail(message, m.spec)
	if err != nil {
		return "", &failure{text: err.Error(), final: true}
	}
	client, err := m.dial(ctx)
	if err != nil {
		return "", smtpError(err)
	}
	defer client.Close()
	if err := m.logIn(client, secrets); err != nil {
		return "", smtpError(err)
	}
	refused, err := m.submit(client, text)
	if err != nil {
		return "", smtpError(err)
	}
	_ = client.Quit() // the mail was accepted
	answer = "250 taken by " + m.spec.Smarthost
	if refused != nil {
		answer += ", but not for " + format.Clean(refused.Error(), format.MaxText)
	}
	return answer, nil
}

// dial returns a client with encryption as configured. Its connection closes when ctx ends.
func (m *mailer) dial(ctx context.Context) (*smtp.Client, error) {
	host, _, _ := net.SplitHostPort(m.spec.Smarthost)
	settings := tlsSettings(m.dir, m.spec.CA)
	settings.ServerName = host
	secure, err := settings.Config()
	if err != nil {
		return nil, err
	}
	plain, err := m.net(ctx, "tcp", m.spec.Smarthost)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = plain.Close() })
	var conn net.Conn = &limitedConn{plain, maxSMTP}
	if m.spec.TLS == config.ImplicitTLS {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if err = client.Hello(helloName()); err == nil && m.spec.TLS == config.StartTLS {
		if ok, _ := client.Extension("STARTTLS"); !ok {
			err = &failure{text: "the smarthost does not offer STARTTLS; tls: none sends in the clear", final: true}
		} else {
			err = client.StartTLS(secure)
		}
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

func helloName() string {
	if host := hostName(); host != "" && !strings.ContainsAny(host, " \r\n") {
		return host
	}
	return "localhost"
}

// maxSMTP limits the bytes read from a connection. A mail server sends only some lines.
const maxSMTP = 256 << 10

// limitedConn is a connection that reads at most left bytes.
type limitedConn struct {
	net.Conn
	left int
}

// Read implements [net.Conn].
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("the smarthost sends too much")
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (m *mailer) logIn(client *smtp.Client, secrets *secretFiles) error {
	if m.spec.Username == "" {
		return nil
	}
	password, err := secrets.read("passwordFile", m.spec.PasswordFile)
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(m.spec.Smarthost)
	_, offered := client.Extension("AUTH")
	mechanisms := strings.Fields(offered)
	if !slices.Contains(mechanisms, "PLAIN") && slices.Contains(mechanisms, "LOGIN") {
		return client.Auth(&loginAuth{m.spec.Username, password})
	}
	return client.Auth(smtp.PlainAuth("", m.spec.Username, password, host))
}

// loginAuth is the LOGIN mechanism, for servers without another one. It requires TLS.
type loginAuth struct{ username, password string }

// Start implements [smtp.Auth].
func (l *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS {
		return "", nil, errors.New("the connection is not encrypted")
	}
	return "LOGIN", nil, nil
}

// Next implements [smtp.Auth].
func (l *loginAuth) Next(question []byte, more bool) ([]byte, error) {
	switch {
	case !more:
		return nil, nil
	case bytes.HasPrefix(bytes.ToLower(question), []byte("user")):
		return []byte(l.username), nil
	default:
		return []byte(l.password), nil
	}
}

// submit sends the mail. If the server rejects only some recipients, the others get it, and refused is the
// error of the first rejected one.
func (m *mailer) submit(client *smtp.Client, text []byte) (refused, err error) {
	from, err := mail.ParseAddress(m.spec.From)
	if err != nil {
		return nil, err
	}
	if err := client.Mail(from.Address); err != nil {
		return nil, err
	}
	taken := 0
	for _, to := range m.spec.To {
		address, err := mail.ParseAddress(to)
		if err == nil {
			err = client.Rcpt(address.Address)
		}
		if err == nil {
			taken++
		} else if refused == nil {
			refused = fmt.Errorf("%s: %w", to, err)
		}
	}
	if taken == 0 {
		return nil, refused
	}
	data, err := client.Data()
	if err != nil {
		return nil, err
	}
	if _, err := data.Write(text); err != nil {
		return nil, err
	}
	return refused, data.Close()
}

// smtpError returns err; a reply code from 500 on is final.
func smtpError(err error) error {
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return &failure{text: format.Clean(err.Error(), format.MaxText), final: answer.Code >= 500}
	}
	return err
}
