package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/daeace23/prober/config"
)

// Input is a message for a webhook.
type Input struct {
	*Message
	Spec *config.Webhook
	// URL is the receiver's. It must not be modified.
	URL *url.URL
	// Secret is the content of the file of [config.Webhook.SecretFile].
	Secret string
	// Template is the text of a template.
	Template string
	// Repeat is the time after which an unchanged message is sent again.
	Repeat time.Duration
}

// Request is what a service expects.
type Request struct {
	Method string
	URL    *url.URL
	Header map[string]string // beside the type of the content, and the headers of the configuration
	Body   []byte
}

// encoders has the formats.
var encoders = map[config.WebhookFormat]func(*Input) (*Request, error){
	config.AlertmanagerFormat: alertmanager,
	config.DiscordFormat:      discord,
	config.GotifyFormat:       gotify,
	config.JSONFormat: func(in *Input) (*Request, error) {
		return in.post(in.renderWithin(maxProbes, maxRendered, func(m *Message) ([]byte, error) { return json.Marshal(m) }))
	},
	config.MatrixFormat:    matrix,
	config.NtfyFormat:      ntfy,
	config.OpsgenieFormat:  opsgenie,
	config.PagerDutyFormat: func(in *Input) (*Request, error) { return in.post(pagerDuty(in.Message, in.Secret)) },
	config.SlackFormat:     func(in *Input) (*Request, error) { return in.post(slack(in.Message)) },
	config.TeamsFormat:     func(in *Input) (*Request, error) { return in.post(teams(in.Message)) },
	config.TelegramFormat:  telegram,
	config.TemplateFormat: func(in *Input) (*Request, error) {
		return in.post(Template(in.Template, in.Spec.ContentType, in.Message))
	},
}

// Encode returns the request for a message, in the format of its webhook.
func Encode(in *Input) (*Request, error) {
	encode := encoders[in.Spec.Format]
	if encode == nil {
		return nil, fmt.Errorf("unknown format %q", in.Spec.Format)
	}
	return encode(in)
}

// post returns a POST of body to the URL of the receiver.
func (in *Input) post(body []byte, err error) (*Request, error) { return in.postTo(in.URL, body, err) }

func (in *Input) postTo(to *url.URL, body []byte, err error) (*Request, error) {
	return &Request{Method: http.MethodPost, URL: to, Body: body}, err
}

// encodeJSON returns the JSON of v without escapes for HTML, which would lengthen it.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
