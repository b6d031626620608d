package conditions

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// maxMessage is the most bytes of a message.
const maxMessage = 1 << 10

// message lists the probes that are not well as "CONTAINER KIND: TEXT; …": those that fail, then those
// that are unknown, that warn, and that are paused. Each gets its share of the length.
func message(probes []*Probe) string {
	var lines []string
	count := 0
	for _, p := range probes {
		if p.Decided && p.reason() != ProbeSucceeded {
			count++
		}
	}
	for _, reason := range []string{ProbeFailed, ProbeUnknown, ProbeWarning, Paused} {
		for _, p := range probes {
			if !p.Decided || p.reason() != reason {
				continue
			}
			line, text := p.Container+" "+p.Kind.String(), api.OneLine(p.Text)
			if reason == Paused {
				text = "paused"
			}
			if text != "" {
				line += ": " + text
			}
			lines = append(lines, clip.Text(line, max(maxMessage/count-len(separator), minShare)))
		}
	}
	return clip.Text(api.OneLine(strings.Join(lines, separator)), maxMessage)
}

// separator is between the probes of a message.
const separator = "; "

// splitLine returns the name of a probe in a line of a message, and the text after it. A line of a text that
// contains the separator has no name.
func splitLine(line string) (name, text string) {
	name, text, _ = strings.Cut(line, ": ")
	_, kind, _ := strings.Cut(name, " ")
	if _, err := probe.ParseKind(kind); err != nil {
		return "", line
	}
	return name, text
}

// Lists reports whether the message of a condition lists a probe, which is not well then.
func Lists(c *v1.PodCondition, container string, kind probe.Kind) bool {
	name := container + " " + kind.String()
	for line := range strings.SplitSeq(c.Message, separator) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest == "" || rest[0] == ':') {
			return true
		}
	}
	return false
}

// minShare is the least length of what is said about one probe.
const minShare = 80
