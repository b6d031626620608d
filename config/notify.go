package config

import (
	"reflect"
	"time"

	"github.com/daeace23/prober/probe"
)

// Notify is who is told of changes of the state of probes. A relative path is from the folder of the
// file.
type Notify struct {
	ExternalURL string // of the agent's page, for links in messages; "": messages have none
	Receivers   []Receiver
}

// Receiver is told of the changes of the probes that it selects. Exactly one of Webhook, Exec and Mail
// is set.
type Receiver struct {
	Name    string
	Webhook *Webhook
	Exec    *ExecReceiver
	Mail    *MailReceiver

	Match  []ProbeMatch  // selects probes that at least one of them matches; none: all probes
	States []NotifyState // of which it is told
	// For is how long a state must last before it counts; nil: 0, and a minute for a warning.
	For            *time.Duration
	GroupBy        []string      // names of fields of [ProbeMatch]: probes with the same values share a message
	GroupWait      time.Duration // for further changes before a message
	GroupInterval  time.Duration // between two messages of a group
	RepeatInterval time.Duration // until an unchanged group is told again; 0: never
	Resolved       bool          // whether it is told of the end of what it was told
	MaxPerMinute   int           // messages
	Retention      time.Duration // how long it is tried to tell what is over

	Line int // in the file, for later errors
	Path string
}

// NotifyState is a state of a probe that a receiver can be told of.
type NotifyState string

// The states of [Receiver.States].
const (
	NotifyFailure NotifyState = "failure"
	NotifyWarning NotifyState = "warning"
	NotifyUnknown NotifyState = "unknown"
)

// ProbeMatch selects probes. Each field but Kind is a pattern as of path.Match; "" matches everything.
type ProbeMatch struct{ Namespace, Pod, Container, Kind, Handler string }

// WebhookFormat is the format of the body of a request.
type WebhookFormat string

// The formats of [Webhook.Format].
const (
	SlackFormat     WebhookFormat = "slack"
	TeamsFormat     WebhookFormat = "teams"
	PagerDutyFormat WebhookFormat = "pagerduty"
	JSONFormat      WebhookFormat = "json"
	TemplateFormat  WebhookFormat = "template"
)

// Webhook is a URL that gets a POST for each message.
type Webhook struct {
	Format          WebhookFormat
	URL, URLFile    string // one of them
	RoutingKeyFile  string // of PagerDuty
	Headers         map[string]string
	BearerTokenFile string // "": no token
	CA              string // path of the authorities to trust, in PEM; "": those of the system
	Timeout         time.Duration
	Template        string // of TemplateFormat, or TemplateFile
	TemplateFile    string
	ContentType     string // of TemplateFormat

	// TemplateLine is the line of Template or TemplateFile.
	TemplateLine int
}

// ExecReceiver is a command that is run for each message, with the rights of the agent.
type ExecReceiver struct {
	Command []string // the absolute path of a program, and its arguments
	Timeout time.Duration
}

// MailReceiver is a mail for each message.
type MailReceiver struct {
	To           []string
	From         string
	Smarthost    string // host:port
	TLS          MailTLS
	CA           string // path of the authorities to trust, in PEM; "": those of the system
	Username     string // "": no authentication
	PasswordFile string
	Timeout      time.Duration
}

// MailTLS is how a connection to a smarthost is encrypted.
type MailTLS string

// The values of [MailReceiver.TLS].
const (
	StartTLS    MailTLS = "starttls" // which the smarthost must offer
	ImplicitTLS MailTLS = "tls"
	NoTLS       MailTLS = "none"
)

// The defaults of a [Receiver].
const (
	DefaultGroupWait      = 10 * time.Second
	DefaultGroupInterval  = time.Minute
	DefaultRepeatInterval = 4 * time.Hour
	DefaultRetention      = 24 * time.Hour
	DefaultMaxPerMinute   = 20
	DefaultNotifyTimeout  = 10 * time.Second // of a request, a command or a mail
	WarningFor            = time.Minute      // how long a warning lasts before it counts
	pagerDutyURL          = "https://events.pagerduty.com/v2/enqueue"
	maxReceivers          = 50
)

// Equal reports whether r and other send the same to the same place.
func (r *Receiver) Equal(other *Receiver) bool {
	a, b := r.withoutPlace(), other.withoutPlace()
	return reflect.DeepEqual(a, b)
}

func (r *Receiver) withoutPlace() *Receiver {
	c := *r
	c.Line, c.Path = 0, ""
	if c.Webhook != nil {
		w := *c.Webhook
		w.TemplateLine = 0
		c.Webhook = &w
	}
	return &c
}

// Duration returns how long a state must last before it counts.
func (r *Receiver) Duration(state NotifyState) time.Duration {
	switch {
	case r.For != nil:
		return *r.For
	case state == NotifyWarning:
		return WarningFor
	default:
		return 0
	}
}

// groupFields are the values of [Receiver.GroupBy].
var groupFields = []string{"namespace", "pod", "container", "kind", "handler"}

func parseKindName(text string) (string, error) {
	kind, err := probe.ParseKind(text)
	return kind.String(), err
}
