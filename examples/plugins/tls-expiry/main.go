// Tls-expiry is a plugin that checks when the certificates of a server expire. It implements
// STARTTLS of mail, directory and database protocols.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

const (
	defaultWarnDays = 21
	defaultFailDays = 7
	day             = 24 * time.Hour
)

func main() {}

func init() { sdk.Register(check{}) }

type check struct{}

// options are the config, with its defaults.
type options struct {
	warnDays, failDays float64
	leafOnly           bool
	starttls           string
	tls                sdk.TLSOptions
}

func read(c *sdk.Config) options {
	return options{
		warnDays: c.Float("warnDays", defaultWarnDays),
		failDays: c.Float("failDays", defaultFailDays),
		leafOnly: c.String("certificates", "chain") == "leaf",
		starttls: c.String("starttls", ""),
		tls: sdk.TLSOptions{
			ServerName:         c.String("serverName", ""),
			InsecureSkipVerify: c.String("verify", "full") == "none",
			CA:                 c.String("ca", ""),
		},
	}
}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	o := read(c)
	if c.Err() == nil && o.warnDays <= o.failDays {
		return fmt.Errorf("config.warnDays: %v must be above failDays, which is %v", o.warnDays, o.failDays)
	}
	if o.tls.CA != "" && !strings.Contains(o.tls.CA, "-----BEGIN CERTIFICATE-----") {
		return errors.New("config.ca: no certificate in PEM")
	}
	if o.tls.CA != "" && o.tls.InsecureSkipVerify {
		return errors.New("config.ca: is of no use with verify: none")
	}
	_, err := upgradeOf(o.starttls)
	return err
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	o := read(r.Config)
	start := time.Now()
	shown, distrust, err := show(ctx, r, o)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if shown == nil || len(shown.Certificates) == 0 {
		return sdk.Failuref("the server showed no certificate"), nil
	}
	took := time.Since(start)
	certs := shown.Certificates
	if o.leafOnly {
		certs = certs[:1]
	}
	out, days := judge(certs, firstToEnd(shown, o.leafOnly), o, time.Now())
	if distrust != nil {
		out = sdk.Failuref("%v; %s", distrust, out.Output)
	}
	out.Metrics = []probe.Metric{
		{Name: "earliest_expiry_days", Value: days},
		{Name: "certificates", Value: float64(len(certs))},
		{Name: "connect_seconds", Value: took.Seconds(), Unit: "s"},
	}
	return out, nil
}

// firstToEnd returns the certificate that counts: the first one to end in the verified chain, or the server's own.
// A certificate that the server sends in vain does not count.
func firstToEnd(shown *sdk.TLSInfo, leafOnly bool) sdk.Certificate {
	for _, c := range shown.Certificates {
		if leafOnly || c.NotAfter.Unix() == shown.ChainEndsAt {
			return c
		}
	}
	return sdk.Certificate{Subject: "the root certificate", NotAfter: time.Unix(shown.ChainEndsAt, 0)}
}

// show returns the certificates of the server. If the server is not trusted, it connects again
// without verification to get them, and distrust is the reason.
func show(ctx context.Context, r *sdk.Request, o options) (shown *sdk.TLSInfo, distrust, err error) {
	shown, err = connect(ctx, r, o.starttls, o.tls)
	refused, ok := errors.AsType[*handshakeError](err)
	if !ok || o.tls.InsecureSkipVerify {
		return shown, nil, err
	}
	blind := o.tls
	blind.InsecureSkipVerify, blind.CA = true, ""
	if shown, err = connect(ctx, r, o.starttls, blind); err != nil {
		return nil, nil, refused
	}
	return shown, refused, nil
}

// handshakeError is an error of TLS itself.
type handshakeError struct{ err error }

// Error leaves out the address, which the user knows.
func (e *handshakeError) Error() string {
	return strings.TrimPrefix(e.err.Error(), "starttls: ")
}

func (e *handshakeError) Unwrap() error { return e.err }

func connect(ctx context.Context, r *sdk.Request, starttls string, o sdk.TLSOptions) (*sdk.TLSInfo, error) {
	upgrade, err := upgradeOf(starttls)
	if err != nil {
		return nil, err
	}
	conn, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { conn.Close() }()
	if upgrade != nil {
		if err := speak(conn, upgrade); err != nil {
			return nil, fmt.Errorf("%s: %w", starttls, err)
		}
	}
	if o.ServerName == "" {
		o.ServerName = r.Target.Host
	}
	secured, err := sdk.StartTLS(ctx, conn, o)
	if err != nil {
		return nil, &handshakeError{err}
	}
	conn = secured
	info, err := sdk.Inspect(conn)
	return info.Peer, err
}

// judge returns the result for first, the certificate that expires first, or for one that is not yet valid, and
// the days until the expiry of first.
func judge(certs []sdk.Certificate, first sdk.Certificate, o options, now time.Time) (probe.Outcome, float64) {
	days := first.NotAfter.Sub(now).Hours() / 24
	for _, c := range certs {
		if now.Before(c.NotBefore) {
			return sdk.Failuref("%s is not valid before %s", name(c), stamp(c.NotBefore)), days
		}
	}
	text := fmt.Sprintf("%s ends in %s, at %s", name(first), count(days), stamp(first.NotAfter))
	switch {
	case days <= 0:
		return sdk.Failuref("%s ended %s ago, at %s", name(first), count(-days), stamp(first.NotAfter)), days
	case days < o.failDays:
		return sdk.Failuref("%s, below %v days", text, o.failDays), days
	case days < o.warnDays:
		return sdk.Warningf("%s, below %v days", text, o.warnDays), days
	default:
		return sdk.Successf("%s", text), days
	}
}

// name returns the name of a certificate for humans.
func name(c sdk.Certificate) string {
	text := c.Subject
	if text == "" && len(c.SANs) > 0 {
		text = c.SANs[0]
	}
	if text == "" {
		text = "sha256:" + c.SHA256
	}
	return fmt.Sprintf("%.200s", text)
}

// count returns the number of full days in words.
func count(days float64) string {
	if n := int64(days); n != 1 {
		return fmt.Sprintf("%d days", n)
	}
	return "1 day"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
