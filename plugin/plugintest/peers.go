package plugintest

import (
	"fmt"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// traced is an event of an attempt on one line. Only what it waited for at its deadline
// has a duration: those of the others say nothing on a clock where nothing takes time.
func traced(e probe.TraceEvent) string {
	if e.Type == probe.TraceWait && e.Duration > 0 {
		return fmt.Sprintf("%s %s for %v, %s", e.Type, e.Name, explain.Round(e.Duration), e.Detail)
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s", e.Type, e.Name, e.Detail), " ")
}

// hung reports whether the attempt ended with its time.
func (a *answer) hung() bool {
	return a.stuck != "" || a.err == nil && a.out.Reason == probe.ReasonDeadline
}

// states says what each peer that was dialled was doing at the end of a hang.
func (n *network) states() (lines []string) {
	for i, conns := range n.connections() {
		for _, c := range conns {
			p := n.peers[i]
			lines = append(lines, fmt.Sprintf("%s (%s): %s", p.Dial, n.line(p.Line), c.state()))
		}
	}
	return lines
}

// state says what the peer is doing.
func (c *conn) state() string {
	if s, got := c.waitsFor(); s != nil {
		return fmt.Sprintf("waits for %v (%s); got %s", s, c.host.line(s.Line), got)
	}
	c.script.Lock()
	defer c.script.Unlock()
	now := c.host.clock.Now()
	switch {
	case c.peer.Behaviour == Timeout:
		return "behaviour timeout: it is never connected"
	case c.peer.Behaviour != "":
		return fmt.Sprintf("behaviour %s", c.peer.Behaviour)
	case c.busy.Add(c.peer.Latency).After(now):
		return fmt.Sprintf("sends on %v later", c.busy.Add(c.peer.Latency).Sub(now).Round(time.Millisecond))
	case len(c.out) > 0:
		return "its script has ended, it sends nothing more; then came " + quote(c.out)
	}
	return "its script has ended, it sends nothing more"
}
