// Receivers decodes what a receiver of notifications gets with the types that the clients of Slack and
// PagerDuty have, in which no field may be missing, and writes it as they encode it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/PagerDuty/go-pagerduty"
	"github.com/slack-go/slack"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: receivers slack|pagerduty < BODY")
		os.Exit(64)
	}
	if err := decode(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func decode(format string) error {
	body := json.NewDecoder(os.Stdin)
	body.DisallowUnknownFields()
	var value any
	switch format {
	case "slack":
		var m slack.WebhookMessage
		if err := body.Decode(&m); err != nil {
			return err
		}
		for _, b := range m.Blocks.BlockSet {
			if _, ok := b.(*slack.UnknownBlock); ok {
				return fmt.Errorf("the block %s is not known", b.BlockType())
			}
			if v, ok := b.(interface{ Validate() error }); ok {
				if err := v.Validate(); err != nil {
					return err
				}
			}
		}
		value = m
	case "pagerduty":
		var e pagerduty.V2Event
		if err := body.Decode(&e); err != nil {
			return err
		}
		value = e
	default:
		return errors.New("unknown format " + format)
	}
	if _, err := body.Token(); err != io.EOF {
		return errors.New("something follows the message")
	}
	return json.NewEncoder(os.Stdout).Encode(value)
}
