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

// Once is the set of limits that one attempt has hit. A limit counts once per attempt.
type Once uint32

// Add records that the attempt hit a limit. If it is the first time, Add counts the limit in hits and
// returns true.
func (o *Once) Add(limit int, hits *Hits) (first bool) {
	if *o&(1<<limit) != 0 {
		return false
	}
	*o |= 1 << limit
	hits[limit].Add(1)
	return true
}

// Log counts the log lines and bytes of one attempt. It is not safe for concurrent use.
type Log struct{ lines, bytes int }

// Full reports whether a limit of the log is reached. If so, it calls hit with the index of the limit.
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

// Add counts a line and returns it, cut to the limit of the log. It redacts the line before the cut,
// because the rest of a cut secret could not be found.
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
