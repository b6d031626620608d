package config

import (
	"iter"
	"slices"
	"time"
)

// WebhookFormat names the format of the requests of a [Webhook].
type WebhookFormat string

// The formats of [Webhook.Format].
const (
	AlertmanagerFormat WebhookFormat = "alertmanager"
	DiscordFormat      WebhookFormat = "discord"
	GotifyFormat       WebhookFormat = "gotify"
	JSONFormat         WebhookFormat = "json"
	MatrixFormat       WebhookFormat = "matrix"
	NtfyFormat         WebhookFormat = "ntfy"
	OpsgenieFormat     WebhookFormat = "opsgenie"
	PagerDutyFormat    WebhookFormat = "pagerduty"
	SlackFormat        WebhookFormat = "slack"
	TeamsFormat        WebhookFormat = "teams"
	TelegramFormat     WebhookFormat = "telegram"
	TemplateFormat     WebhookFormat = "template"
)

// FormatRules describes a format for those who read its fields and send its messages.
type FormatRules struct {
	Name WebhookFormat
	// URL is used if neither url nor urlFile is set; "" if one of them is required.
	URL string
	// Required has the fields that must be set, and Optional further ones that other formats do not have.
	Required, Optional []string
	// Separate means that a message must not be about several groups, because the service has one incident
	// for each.
	Separate bool
	// RepeatInterval is the default of [Receiver.RepeatInterval]; 0 means [DefaultRepeatInterval].
	RepeatInterval time.Duration
	// MustRepeat means that the service ends an alert that is not repeated.
	MustRepeat bool
	// Probes is the maximum number of probes in a message; 0 means the default.
	Probes int
}

// formatRules has the formats, sorted by name.
var formatRules = []FormatRules{
	{Name: AlertmanagerFormat, RepeatInterval: time.Minute, MustRepeat: true, Probes: 1000},
	{Name: DiscordFormat},
	{Name: GotifyFormat, Required: []string{"bearerTokenFile"}},
	{Name: JSONFormat},
	{Name: MatrixFormat, Required: []string{"bearerTokenFile", "room"}},
	{Name: NtfyFormat},
	{Name: OpsgenieFormat, URL: "https://api.opsgenie.com", Required: []string{"apiKeyFile"}, Separate: true},
	{Name: PagerDutyFormat, URL: "https://events.pagerduty.com/v2/enqueue", Required: []string{"routingKeyFile"}, Separate: true},
	{Name: SlackFormat},
	{Name: TeamsFormat},
	{Name: TelegramFormat, URL: "https://api.telegram.org", Required: []string{"botTokenFile", "chatID"}},
	{Name: TemplateFormat, Optional: []string{"template", "templateFile", "contentType"}},
}

// commonFields are fields of [FormatRules.Required] that all formats may have.
var commonFields = []string{"bearerTokenFile"}

// WebhookFormats yields the formats, sorted by name.
func WebhookFormats() iter.Seq[WebhookFormat] {
	return func(yield func(WebhookFormat) bool) {
		for i := range formatRules {
			if !yield(formatRules[i].Name) {
				return
			}
		}
	}
}

// Rules returns the rules of a format; the zero value for an unknown one.
func (f WebhookFormat) Rules() FormatRules {
	i := slices.IndexFunc(formatRules, func(r FormatRules) bool { return r.Name == f })
	if i < 0 {
		return FormatRules{}
	}
	return formatRules[i]
}

// formatsWith returns the formats that have a field of their own; none if all formats may have it.
func formatsWith(field string) (all []WebhookFormat) {
	if slices.Contains(commonFields, field) {
		return nil
	}
	for i := range formatRules {
		if r := &formatRules[i]; slices.Contains(r.Required, field) || slices.Contains(r.Optional, field) {
			all = append(all, r.Name)
		}
	}
	return all
}

// SecretFile returns the field with the secret of the format, beside bearerTokenFile, and the path of its
// file; "" if it has none.
func (w *Webhook) SecretFile() (field, path string) {
	switch w.Format {
	case OpsgenieFormat:
		return "apiKeyFile", w.APIKeyFile
	case PagerDutyFormat:
		return "routingKeyFile", w.RoutingKeyFile
	case TelegramFormat:
		return "botTokenFile", w.BotTokenFile
	default:
		return "", ""
	}
}
