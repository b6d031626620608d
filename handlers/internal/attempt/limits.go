package attempt

import (
	"strings"
	"sync/atomic"

	"github.com/daeace23/prober/plugin"
)

// Hits counts how often a plugin hit each of its limits, by the index of
// [plugin.LimitNames].
type Hits [len(plugin.LimitNames)]atomic.Uint64

// Counts returns the limits that were hit.
func (h *Hits) Counts() map[plugin.LimitName]uint64 {
	counts := make(map[plugin.LimitName]uint64)
	for i := range h {
		if n := h[i].Load(); n > 0 {
			counts[plugin.LimitNames[i]] = n
		}
	}
	return counts
}

// Once is the limits that one attempt has hit. An attempt counts once, however often it tries.
type Once uint32

// Add counts a limit in hits, and reports whether the attempt hits it for the first time.
func (o *Once) Add(limit int, hits *Hits) (first bool) {
	if *o&(1<<limit) != 0 {
		return false
	}
	*o |= 1 << limit
	hits[limit].Add(1)
	return true
}

// Log is how much of its log an attempt has used. It belongs to one goroutine.
type Log struct{ lines, bytes int }

// Full reports whether no further line is taken. hit is called with the limit.
func (l *Log) Full(limits *plugin.Limits, hit func(limit int)) bool {
	switch {
	case l.lines >= limits.LogLines:
		hit(plugin.LimitLogLines)
	case l.bytes >= limits.LogBytes:
		hit(plugin.LimitLogBytes)
	default:
		return false
	}
	return true
}

// Add takes a line and returns it as far as there is room for it. One that is cut is redacted
// before: half a secret would not be found later.
func (l *Log) Add(line string, limits *plugin.Limits, redact func(string) string, hit func(limit int)) string {
	if room := limits.LogBytes - l.bytes; len(line) > room {
		hit(plugin.LimitLogBytes)
		line = redact(line)
		line = line[:min(len(line), room)]
	}
	line = strings.ToValidUTF8(line, "\uFFFD")
	l.lines++
	l.bytes += len(line)
	return line
}
