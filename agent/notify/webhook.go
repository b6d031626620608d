package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/internal/regular"
)

const (
	maxFile       = 64 << 10 // limit of a secret, in bytes
	maxCA         = 1 << 20
	maxAnswer     = 16 << 10 // limit of a response, in bytes
	maxAnswerText = 200      // characters of a response that are shown
	maxRetryAfter = 15 * time.Minute
)

// failure is the error of a message that was not delivered.
type failure struct {
	text  string
	final bool          // the same message would fail again
	after time.Duration // minimum pause that the receiver asks for; 0 if it asks for none
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// webhook sends messages over HTTP.
type webhook struct {
	receiver *config.Receiver
	dir      string // the configuration file: paths are relative to its folder
	dial     dialer
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (w *webhook) spec() *config.Webhook { return w.receiver.Webhook }

func (w *webhook) mergeable() bool { return !w.spec().Format.Rules().Separate }

func (w *webhook) kind() string { return "webhook " + string(w.spec().Format) }

// check builds a request, without sending it.
func (w *webhook) check() error {
	secrets := &secretFiles{dir: w.dir}
	_, err := w.request(context.Background(), example(w.receiver, ""), secrets)
	if _, bad := tlsSettings(w.dir, w.spec().CA).Config(); err == nil {
		err = bad
	}
	return secrets.hideError(err)
}

// send makes one request.
func (w *webhook) send(ctx context.Context, m *format.Message) (answer string, err error) {
	secrets := &secretFiles{dir: w.dir}
	defer func() { answer, err = secrets.hide(answer), secrets.hideError(err) }()
	request, err := w.request(ctx, m, secrets)
	if err != nil {
		return "", err
	}
	client := outbound.New(outbound.Config{ // for one request, as messages are rare
		TLS: tlsSettings(w.dir, w.spec().CA), Timeout: w.spec().Timeout, MaxBody: maxAnswer, DialContext: w.dial, KeepAlive: true, DisableCompression: true,
	})
	defer client.Close()
	res, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode >= 200 && res.StatusCode < 300 { // accepted, whatever the body is
		return strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode), nil
	}
	body, _ := io.ReadAll(res.Body)
	return "", refusal(res, secrets.hide(string(body)))
}

// refusal returns the error of a response without success.
func refusal(res *http.Response, body string) *failure {
	text := fmt.Sprintf("HTTP status %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	if body = format.Clean(body, maxAnswerText); body != "" {
		text += ": " + body
	}
	f := &failure{text: strings.TrimSpace(text)}
	switch code := res.StatusCode; {
	case code >= 300 && code < 400:
		f.text, f.final = text+": redirects are not followed", true
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		f.after = outbound.RetryAfter(res, maxRetryAfter)
	default:
		f.final = true
	}
	return f
}

// request returns the request for m. It adds the texts that must not be shown to secrets.
func (w *webhook) request(ctx context.Context, m *format.Message, secrets *secretFiles) (*http.Request, error) {
	target, err := w.target(secrets)
	if err != nil {
		return nil, err
	}
	secret := ""
	if field, path := w.spec().SecretFile(); path != "" {
		if secret, err = secrets.read(field, path); err != nil {
			return nil, err
		}
	}
	encoded, err := w.encode(m, target, secret)
	if err != nil {
		return nil, &failure{text: err.Error(), final: true}
	}
	r, err := http.NewRequestWithContext(ctx, encoded.Method, encoded.URL.String(), bytes.NewReader(encoded.Body))
	if err != nil {
		return nil, &failure{text: "the URL is not valid", final: true}
	}
	r.Header.Set("User-Agent", "prober")
	for name, value := range w.spec().Headers {
		r.Header.Set(name, value)
		if name == "Authorization" || strings.Contains(name, "Token") || strings.Contains(name, "Key") {
			secrets.add(value)
		}
	}
	r.Header.Set("Content-Type", cmp.Or(w.spec().ContentType, "application/json"))
	for name, value := range encoded.Header {
		r.Header.Set(name, value)
	}
	if w.spec().BearerTokenFile != "" {
		token, err := secrets.read("bearerTokenFile", w.spec().BearerTokenFile)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

// target returns the URL of the receiver.
func (w *webhook) target(secrets *secretFiles) (*url.URL, error) {
	text := w.spec().URL
	if w.spec().URLFile != "" {
		var err error
		if text, err = secrets.read("urlFile", w.spec().URLFile); err != nil {
			return nil, err
		}
	}
	secrets.addURL(text)
	target, err := url.Parse(text)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, &failure{text: "urlFile: must contain an http:// or https:// URL", final: true}
	}
	if topic := path.Base(target.Path); w.spec().Format == config.NtfyFormat && len(topic) > 1 {
		secrets.add(topic) // who knows it may read the messages
	}
	return target, nil
}

// encode returns the request for m in the format of the receiver.
func (w *webhook) encode(m *format.Message, target *url.URL, secret string) (*format.Request, error) {
	in := &format.Input{Message: m, Spec: w.spec(), URL: target, Secret: secret, Repeat: w.receiver.RepeatInterval, Template: w.spec().Template}
	if w.spec().TemplateFile != "" {
		data, err := regular.Read(config.Beside(w.dir, w.spec().TemplateFile), format.MaxTemplate)
		if err != nil {
			return nil, err
		}
		in.Template = string(data)
	}
	return format.Encode(in)
}

// tlsSettings returns TLS settings with the certificate authorities of a file.
func tlsSettings(dir, ca string) *outbound.TLS {
	return &outbound.TLS{CA: ca, ReadFile: func(path string) ([]byte, error) { return regular.Read(config.Beside(dir, path), maxCA) }}
}

// secretFiles reads secrets, and hides them in responses and errors.
type secretFiles struct {
	dir    string
	values []string
}

func (s *secretFiles) read(field, path string) (string, error) {
	data, err := regular.Read(config.Beside(s.dir, path), maxFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", &failure{text: field + ": " + path + " must contain exactly one line", final: true}
	}
	s.add(text)
	return text, nil
}

func (s *secretFiles) add(value string) { s.values = append(s.values, value) }

// addURL adds the path and the query of a URL, which often contain a secret in webhooks.
func (s *secretFiles) addURL(text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	for _, part := range []string{text, u.RequestURI(), u.RawQuery} {
		if len(part) > 8 {
			s.add(part)
		}
	}
}

func (s *secretFiles) hide(text string) string {
	if text == "" || len(s.values) == 0 {
		return text
	}
	return redact.New(s.values).Replace(text)
}

func (s *secretFiles) hideError(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{text: s.hide(f.text), final: f.final, after: f.after}
	}
	return &failure{text: s.hide(format.Clean(err.Error(), 2*format.MaxText))}
}
