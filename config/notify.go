package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Notify configures notifications about state changes of probes. A relative path is relative to the folder
// of the file.
type Notify struct {
	ExternalURL string // URL of the agent's page, for links in messages; "": no links
	Receivers   []Receiver
}

// Receiver gets notifications about the probes that it selects. Exactly one of Webhook, Exec and Mail is
// set.
type Receiver struct {
	Name    string
	Webhook *Webhook
	Exec    *ExecReceiver
	Mail    *MailReceiver

	Match []ProbeMatch // selects probes that match at least one; empty: all probes
	// Fallback excludes the probes that other receivers select with Match. Except has the entries of these
	// receivers, nil without Fallback.
	Fallback bool
	Except   []ProbeMatch
	States   []NotifyState // states that are notified
	Quiet    window.List   // when nothing is sent
	// FlapDetection withholds the ends and begins of a probe that fails often.
	FlapDetection bool
	// For is how long a state must last before it is notified. Nil means 0, and a minute for a warning.
	For            *time.Duration
	GroupBy        []string      // field names of [ProbeMatch], and LabelPrefix with the name of a label; probes with the same values share a message
	GroupWait      time.Duration // time to wait for further changes before a message
	GroupInterval  time.Duration // minimum time between two messages of a group
	RepeatInterval time.Duration // time until an unchanged group is notified again; 0: never
	Resolved       bool          // whether the end of a notified state is notified
	MaxPerMinute   int           // messages
	Retention      time.Duration // how long to retry the notification of a resolved incident
	// TimeZone is the zone of the times in messages; nil means UTC.
	TimeZone *time.Location

	Line int // in the file, for later errors
	Path string
}

// NotifyState is a state of a probe that can be notified.
type NotifyState string

// The states of [Receiver.States].
const (
	NotifyFailure NotifyState = "failure"
	NotifyWarning NotifyState = "warning"
	NotifyUnknown NotifyState = "unknown"
)

// Webhook is a URL that receives a request for each message.
type Webhook struct {
	Format          WebhookFormat
	URL, URLFile    string // exactly one is set
	RoutingKeyFile  string // of PagerDuty
	APIKeyFile      string // of Opsgenie
	BotTokenFile    string // of Telegram
	ChatID          string // of Telegram: a number, or @CHANNEL
	Room            string // ID of a room of Matrix
	Headers         map[string]string
	BearerTokenFile string // "": no token
	CA              string // path of the trusted CAs, in PEM; "": the system's
	Timeout         time.Duration
	Template        string // used with TemplateFormat, like TemplateFile
	TemplateFile    string
	ContentType     string // used with TemplateFormat

	// TemplateLine is the line of Template or TemplateFile.
	TemplateLine int
}

// ExecReceiver is a command that runs for each message, with the privileges of the agent.
type ExecReceiver struct {
	Command []string // the absolute path of a program, and its arguments
	Timeout time.Duration
}

// MailReceiver sends a mail for each message.
type MailReceiver struct {
	To           []string
	From         string
	Smarthost    string // host:port
	TLS          MailTLS
	CA           string // path of the trusted CAs, in PEM; "": the system's
	Username     string // "": no authentication
	PasswordFile string
	Timeout      time.Duration
}

// MailTLS selects the encryption of the connection to a smarthost.
type MailTLS string

// The values of [MailReceiver.TLS].
const (
	StartTLS    MailTLS = "starttls" // the smarthost must offer STARTTLS
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
	DefaultNotifyTimeout  = 10 * time.Second // of a request or a command; a mail has three times as long
	WarningFor            = time.Minute      // how long a warning must last before it is notified
	maxReceivers          = 50
	maxQuiet              = 20 // windows of a receiver
)

// Equal reports whether r and other are equal except for their position in the file.
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

// Selects reports whether r selects the probe.
func (r *Receiver) Selects(p *ProbeFacts) bool {
	return MatchesAny(r.Match, p) && !slices.ContainsFunc(r.Except, func(m ProbeMatch) bool { return m.Matches(p) })
}

// setExcept sets Except of each receiver with Fallback.
func (n *Notify) setExcept() {
	var selected []ProbeMatch
	for i := range n.Receivers {
		if r := &n.Receivers[i]; !r.Fallback {
			selected = append(selected, r.Match...)
		}
	}
	for i := range n.Receivers {
		if r := &n.Receivers[i]; r.Fallback {
			r.Except = selected
		}
	}
}

// Duration returns how long state must last before it is notified.
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

// LabelPrefix is the prefix of the labels in [Receiver.GroupBy]: "label:team".
const LabelPrefix = "label:"

// groupFields are the values of [Receiver.GroupBy] without LabelPrefix.
var groupFields = []string{"namespace", "pod", "container", "kind", "handler"}

// maxLabelName is the maximum length of a label's name in Kubernetes, with its prefix.
const maxLabelName = 253 + 1 + 63

// CheckGroupField returns an error if field cannot be a value of [Receiver.GroupBy].
func CheckGroupField(field string) error {
	label, isLabel := strings.CutPrefix(field, LabelPrefix)
	switch {
	case isLabel && (label == "" || len(label) > maxLabelName):
		return fmt.Errorf("must have a name of at most %d characters after %s", maxLabelName, LabelPrefix)
	case !isLabel && !slices.Contains(groupFields, field):
		return fmt.Errorf("unknown value %.80q%s", field, yamlpos.Known(field, append([]string{LabelPrefix + field}, groupFields...)))
	}
	return nil
}

func parseKindName(text string) (string, error) {
	kind, err := probe.ParseKind(text)
	return kind.String(), err
}
