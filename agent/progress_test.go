package agent

import (
	"errors"
	"testing"
)

func TestRetries(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name          string
		last          progress
		pods, plugins bool
	}{
		{"nothing has failed", progress{pods: attempt{version: 1}, plugins: attempt{version: 1}}, false, false},
		{"pods failed against these plugins", progress{pods: attempt{err: failed, against: 1}, plugins: attempt{version: 1}}, false, false},
		{"pods failed against other plugins", progress{pods: attempt{err: failed, against: 1}, plugins: attempt{version: 2}}, true, false},
		{"plugins failed against these pods", progress{pods: attempt{version: 3}, plugins: attempt{err: failed, against: 3}}, false, false},
		{"plugins failed against other pods", progress{pods: attempt{version: 3}, plugins: attempt{err: failed, against: 2}}, false, true},
		{"both failed against others", progress{pods: attempt{version: 1, err: failed}, plugins: attempt{version: 1, err: failed}}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if pods, plugins := c.last.retries(); pods != c.pods || plugins != c.plugins {
				t.Errorf("pods %t, plugins %t", pods, plugins)
			}
			if pods, plugins := c.last.retries(); pods || plugins {
				t.Error("retried twice")
			}
		})
	}
}

// The plugins change while an attempt to reload the pods is under way.
func TestRetriesAttemptUnderWay(t *testing.T) {
	var p progress
	p.pods.begin(&p.plugins)
	p.plugins.version++ // meanwhile
	p.pods.err = errors.New("no such handler")
	if pods, _ := p.retries(); !pods {
		t.Error("pods are not tried again with the new plugin")
	}
}
