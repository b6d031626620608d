package events

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/probe"
)

// How long the lines of warnings that are the same are folded into one: twice as long each
// time, up to a most.
const (
	foldFirst = time.Minute
	foldMost  = 16 * time.Minute
)

// fold counts warnings that are the same as one that was logged.
type fold struct {
	attrs []any
	told  time.Time     // the last line
	every time.Duration // until the next
	times int           // since the last line
}

// takeLocked reports whether a warning is logged: the first of its kind at once, and no other until
// its fold ends. Where there are too many of them, each is logged.
func (l *Log) takeLocked(key eventKey, attrs []any, now time.Time) bool {
	if f := l.folds[key]; f != nil {
		f.times++
		return false
	}
	if len(l.folds) < Max {
		l.folds[key] = &fold{attrs: attrs, told: now, every: l.foldFirst}
	}
	return true
}

// FollowFolds logs how often warnings came again, until ctx ends.
func (l *Log) FollowFolds(ctx context.Context) {
	ticks := time.NewTicker(l.foldFirst / 10)
	defer ticks.Stop()
	for {
		select {
		case now := <-ticks.C:
			l.unfold(now, func(_ eventKey, f *fold) bool { return now.Sub(f.told) >= f.every }, func(f *fold) bool {
				f.every = min(2*f.every, foldMost)
				return f.times > 0
			})
		case <-ctx.Done():
			l.unfold(time.Now(), func(eventKey, *fold) bool { return true }, func(*fold) bool { return false })
			return
		}
	}
}

// Changed logs how often warnings of one probe of a container came again, before the line that
// its result is another one. Where it is well now, the next of them is the first again.
func (l *Log) Changed(pod types.UID, container string, kind probe.Kind, well bool) {
	is := func(key eventKey, _ *fold) bool {
		first, _, _ := strings.Cut(key.message, " ")
		return key.uid == pod && strings.HasSuffix(key.path, "{"+container+"}") && strings.EqualFold(first, kind.String())
	}
	l.unfold(time.Now(), is, func(f *fold) bool {
		f.every = l.foldFirst
		return !well
	})
}

// unfold logs the folds that which is true of. They go on where next is true.
func (l *Log) unfold(now time.Time, which func(eventKey, *fold) bool, next func(*fold) bool) {
	var lines [][]any
	l.mu.Lock()
	for key, f := range l.folds {
		if !which(key, f) {
			continue
		}
		if f.times > 0 {
			lines = append(lines, append(f.attrs[:len(f.attrs):len(f.attrs)], "times", f.times, "in", now.Sub(f.told).Round(time.Second).String()))
		}
		if !next(f) {
			delete(l.folds, key)
			continue
		}
		f.told, f.times = now, 0
	}
	l.mu.Unlock()
	for _, attrs := range lines {
		l.log.Log(context.Background(), slog.LevelWarn, "event repeated", attrs...)
	}
}
