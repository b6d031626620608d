package conditions

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 1 << 10

// message lists the probes that have not succeeded as "CONTAINER KIND: TEXT; …", ordered by reason: failed, unknown,
// warning, paused. Each probe gets an equal share of maxMessage.
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

// splitLine splits a part of a message into the name of a probe and its text. If the part does not begin with a
// name, since a text contained the separator, the name is "".
func splitLine(line string) (name, text string) {
	name, text, _ = strings.Cut(line, ": ")
	_, kind, _ := strings.Cut(name, " ")
	if _, err := probe.ParseKind(kind); err != nil {
		return "", line
	}
	return name, text
}

// Lists reports whether the message of a condition lists a probe as one that has not succeeded.
func Lists(c *v1.PodCondition, container string, kind probe.Kind) bool {
	name := container + " " + kind.String()
	for line := range strings.SplitSeq(c.Message, separator) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest == "" || rest[0] == ':') {
			return true
		}
	}
	return false
}

// minShare is the minimum length in bytes for one probe in a message.
const minShare = 80
