// Receivers decodes what a receiver of notifications gets with the types that the clients or servers of its
// service have, in which no field may be missing, and writes it as they encode it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/PagerDuty/go-pagerduty"
	"github.com/bwmarrin/discordgo"
	"github.com/go-openapi/strfmt"
	"github.com/go-telegram/bot"
	"github.com/opsgenie/opsgenie-go-sdk-v2/alert"
	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/slack-go/slack"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/format"
)

// decoders has the receivers by name.
var decoders = map[string]func(*json.Decoder) (any, error){
	"alertmanager":   decode(func(a *models.PostableAlerts) error { return a.Validate(strfmt.Default) }),
	"discord":        decode(func(*discordgo.WebhookParams) error { return nil }),
	"gotify":         decode(checkGotify),
	"matrix":         decode(checkMatrix),
	"ntfy":           decode(checkNtfy),
	"opsgenie":       decode((*alert.CreateAlertRequest).Validate),
	"opsgenie-close": decode(func(*alert.CloseAlertRequest) error { return nil }),
	"pagerduty":      decode(func(*pagerduty.V2Event) error { return nil }),
	"slack":          decode(checkSlack),
	"telegram":       decode(func(*bot.SendMessageParams) error { return nil }),
}

func main() {
	if len(os.Args) != 2 || decoders[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: receivers %s < BODY\n", strings.Join(slices.Sorted(maps.Keys(decoders)), "|"))
		os.Exit(64)
	}
	body := json.NewDecoder(os.Stdin)
	body.DisallowUnknownFields()
	value, err := decoders[os.Args[1]](body)
	if err == nil {
		if _, end := body.Token(); end != io.EOF {
			err = errors.New("something follows the message")
		}
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(value)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// decode returns a decoder of a T, which check checks.
func decode[T any](check func(*T) error) func(*json.Decoder) (any, error) {
	return func(body *json.Decoder) (any, error) {
		var value T
		err := body.Decode(&value)
		if err == nil {
			err = check(&value)
		}
		return &value, err
	}
}

func checkSlack(m *slack.WebhookMessage) error {
	blocks := slices.Clone(m.Blocks.BlockSet)
	for _, a := range m.Attachments {
		blocks = append(blocks, a.Blocks.BlockSet...)
	}
	for _, b := range blocks {
		if _, ok := b.(*slack.UnknownBlock); ok {
			return fmt.Errorf("the block %s is not known", b.BlockType())
		}
		if v, ok := b.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMatrix replaces the HTML by its text, as mautrix reads it.
func checkMatrix(m *event.MessageEventContent) error {
	if m.MsgType != event.MsgText || m.Format != event.FormatHTML || m.Mentions == nil {
		return fmt.Errorf("type %s, format %s, mentions %v", m.MsgType, m.Format, m.Mentions)
	}
	m.FormattedBody = format.HTMLToText(m.FormattedBody)
	return nil
}

// ntfyMessage is publishMessage of server/types.go of ntfy, whose module cannot be imported.
type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click"`
	Icon     string   `json:"icon"`
	Attach   string   `json:"attach"`
	Filename string   `json:"filename"`
	Email    string   `json:"email"`
	Delay    string   `json:"delay"`
}

func checkNtfy(m *ntfyMessage) error {
	if m.Topic == "" || strings.Contains(m.Topic, "/") || len(m.Message) > 4096 || m.Priority < 1 || m.Priority > 5 {
		return fmt.Errorf("topic %q, %d bytes, priority %d", m.Topic, len(m.Message), m.Priority)
	}
	return nil
}

// gotifyMessage has the fields of MessageExternal of model/message.go of Gotify that are not read-only.
type gotifyMessage struct {
	Message  string         `json:"message"`
	Title    string         `json:"title"`
	Priority *int           `json:"priority"`
	Extras   map[string]any `json:"extras,omitempty"`
}

func checkGotify(m *gotifyMessage) error {
	if m.Message == "" {
		return errors.New("the message is required")
	}
	return nil
}
