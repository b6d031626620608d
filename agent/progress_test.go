package agent

import (
	"errors"
	"testing"
)

func TestTakeRetries(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name          string
		last          progress
		pods, plugins bool
	}{
		{"nothing has failed", progress{pods: reloadAttempt{changes: 1}, plugins: reloadAttempt{changes: 1}}, false, false},
		{"pods failed against these plugins", progress{pods: reloadAttempt{err: failed, otherChanges: 1}, plugins: reloadAttempt{changes: 1}}, false, false},
		{"pods failed against other plugins", progress{pods: reloadAttempt{err: failed, otherChanges: 1}, plugins: reloadAttempt{changes: 2}}, true, false},
		{"plugins failed against these pods", progress{pods: reloadAttempt{changes: 3}, plugins: reloadAttempt{err: failed, otherChanges: 3}}, false, false},
		{"plugins failed against other pods", progress{pods: reloadAttempt{changes: 3}, plugins: reloadAttempt{err: failed, otherChanges: 2}}, false, true},
		{"both failed against others", progress{pods: reloadAttempt{changes: 1, err: failed}, plugins: reloadAttempt{changes: 1, err: failed}}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if pods, plugins := c.last.takeRetries(); pods != c.pods || plugins != c.plugins {
				t.Errorf("pods %t, plugins %t", pods, plugins)
			}
			if pods, plugins := c.last.takeRetries(); pods || plugins {
				t.Error("retried twice")
			}
		})
	}
}

// The plugins change during an attempt to reload the pods.
func TestTakeRetriesChangeDuringAttempt(t *testing.T) {
	var p progress
	p.pods.begin(&p.plugins)
	p.plugins.changes++ // during the attempt
	p.pods.err = errors.New("no such handler")
	if pods, _ := p.takeRetries(); !pods {
		t.Error("pods are not tried again with the new plugin")
	}
}
