package events

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/probe"
)

// The interval in which equal warnings are folded into one line. It doubles with each line, from the first to
// the last.
const (
	foldFirst = time.Minute
	foldMost  = 16 * time.Minute
)

// fold counts the repetitions of a warning that was logged.
type fold struct {
	attrs  []any
	logged time.Time     // when the last line was logged
	every  time.Duration // interval until the next line
	times  int           // number since the last line
}

// normalize removes durations, and the source addresses of connections, from a message. Warnings that only
// differ in these are equal.
func normalize(message string) string {
	if !strings.ContainsAny(message, "0123456789") {
		return message
	}
	words := strings.Fields(message)
	for i, word := range words {
		plain := strings.Trim(word, ",.:;()")
		if _, to, found := strings.Cut(word, "->"); found {
			words[i] = to
		} else if _, err := time.ParseDuration(plain); err == nil && plain != "0" {
			words[i] = ""
		}
	}
	return strings.Join(words, " ")
}

// takeLocked counts a warning and reports whether to log it at once, which is for the first of its kind. If
// there are too many kinds, it is true for all warnings of new kinds.
func (l *Log) takeLocked(key eventKey, attrs []any, now time.Time) bool {
	if f := l.folds[key]; f != nil {
		f.times++
		return false
	}
	if len(l.folds) < Max {
		l.folds[key] = &fold{attrs: attrs, logged: now, every: l.foldFirst}
	}
	return true
}

// FollowFolds logs how often warnings were repeated, until ctx ends.
func (l *Log) FollowFolds(ctx context.Context) {
	ticks := time.NewTicker(l.foldFirst / 10)
	defer ticks.Stop()
	for {
		select {
		case now := <-ticks.C:
			l.unfold(now, func(_ eventKey, f *fold) bool { return now.Sub(f.logged) >= f.every }, func(f *fold) bool {
				f.every = min(2*f.every, foldMost)
				return f.times > 0
			})
		case <-ctx.Done():
			l.unfold(time.Now(), func(eventKey, *fold) bool { return true }, func(*fold) bool { return false })
			return
		}
	}
}

// Changed logs how often the warnings of a probe were repeated. The agent calls it before it logs a change of
// the probe's result. After a success, the next warning is the first of its kind again.
func (l *Log) Changed(pod types.UID, container string, kind probe.Kind, success bool) {
	ofProbe := func(key eventKey, _ *fold) bool {
		first, _, _ := strings.Cut(key.message, " ")
		return key.uid == pod && strings.HasSuffix(key.path, "{"+container+"}") && strings.EqualFold(first, kind.String())
	}
	l.unfold(time.Now(), ofProbe, func(f *fold) bool {
		f.every = l.foldFirst
		return !success
	})
}

// unfold logs the folds that match, and deletes those for which keep returns false.
func (l *Log) unfold(now time.Time, match func(eventKey, *fold) bool, keep func(*fold) bool) {
	var lines [][]any
	l.mu.Lock()
	for key, f := range l.folds {
		if !match(key, f) {
			continue
		}
		if f.times > 0 {
			lines = append(lines, append(f.attrs[:len(f.attrs):len(f.attrs)], "times", f.times, "in", now.Sub(f.logged).Round(time.Second).String()))
		}
		if !keep(f) {
			delete(l.folds, key)
			continue
		}
		f.logged, f.times = now, 0
	}
	l.mu.Unlock()
	for _, attrs := range lines {
		l.log.Log(context.Background(), slog.LevelWarn, "event repeated", attrs...)
	}
}
