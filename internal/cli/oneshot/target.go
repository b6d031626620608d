package oneshot

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/probe"
)

// ParseTarget parses HOST:PORT, unix:PATH or a URL. If text is a URL, url returns the new value of the field
// url in a plugin's config, given the present value. Otherwise url is nil.
func ParseTarget(text string) (target probe.Target, url func(field string) string, err error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok && path != "" {
		return probe.Target{Unix: path}, nil, nil
	}
	if !strings.Contains(text, "://") {
		target, err = ParseHostPort(text)
		return target, nil, err
	}
	a, err := address.Parse(text)
	if err != nil {
		return target, nil, command.Usage("a target looks like https://shop.example/healthz", "--target: %w", err)
	}
	return probe.Target{Host: a.Host, Port: a.ProbePort()}, a.ConfigURL, nil
}

// ParseHostPort parses HOST:PORT.
func ParseHostPort(text string) (probe.Target, error) {
	const hint = "a target looks like 127.0.0.1:6379, or [::1]:6379"
	host, number, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return probe.Target{}, command.Usage(hint, "%q: must be HOST:PORT", text)
	}
	p, err := ParsePort(number)
	if err != nil {
		return probe.Target{}, command.Usage(hint, "%q: %w", text, err)
	}
	return probe.Target{Host: host, Port: p}, nil
}

// ParsePort parses a port number.
func ParsePort(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %q: must be a number from 1 to 65535", text)
	}
	return n, nil
}
