package replace_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

// stuck is a version whose Release or Close hangs.
type stuck struct {
	version
	release, close func() // nil: returns at once
}

func (s *stuck) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	b, err := s.version.Prepare(config, target)
	if err != nil {
		return nil, err
	}
	return &stuckProbe{boundVersion: b.(*boundVersion), of: s}, nil
}

func (s *stuck) Close() error {
	if s.close != nil {
		s.close()
	}
	return s.version.Close()
}

type stuckProbe struct {
	*boundVersion
	of *stuck
}

func (p *stuckProbe) Release() {
	if p.of.release != nil {
		p.of.release()
	}
	p.boundVersion.Release()
}

func (p *stuckProbe) Inherit(from probe.Handler) {
	if old, ok := from.(*stuckProbe); ok {
		p.boundVersion.Inherit(old.boundVersion)
	}
}

// A generation whose Release or Close hangs delays no later one, and Close not for ever.
func TestGenerationThatHangs(t *testing.T) {
	for name, edit := range map[string]func(s *stuck, hang func()){
		"in Release": func(s *stuck, hang func()) { s.release = hang },
		"in Close":   func(s *stuck, hang func()) { s.close = hang },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forever := make(chan struct{})
				v1 := new(stuck)
				edit(v1, func() { <-forever })
				var mu sync.Mutex
				closed := make(map[probe.Handler]error)
				h := handlerWith(t, v1, replace.Config{Closed: func(h probe.Handler, err error) {
					mu.Lock()
					defer mu.Unlock()
					closed[h] = err
				}})
				a := prepareProbe(t, h, `{"a":1}`)
				v2 := &stuck{version: version{number: 2}}
				if err := h.Replace(t.Context(), v2); err != nil {
					t.Fatal(err)
				}
				wantAnswer(t, a, `v2 {"a":1} 1`)
				start := time.Now()
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("Close took %v", took)
				}
				synctest.Wait()
				if err := closed[v1]; err == nil || err.Error() != "not closed within 30s" || closed[v2] != nil || len(closed) != 2 {
					t.Errorf("closed %v", closed)
				}
				close(forever)
			})
		})
	}
}

// The release of a probe does not wait for a handler that hangs, and neither does the
// refusal of a new version for ever.
func TestReleaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		v1 := &stuck{release: func() { <-forever }}
		h := handlerWith(t, v1, replace.Config{})
		for range 100 {
			defer probe.Release(prepareProbe(t, h, "{}"))
		}
		bad := prepareProbe(t, h, "bad")
		v2 := &stuck{version: version{refuses: "bad"}, release: func() { <-forever }}
		if err := h.Replace(t.Context(), v2); err == nil {
			t.Error("a refused version was installed")
		}
		start := time.Now()
		probe.Release(bad)
		if took := time.Since(start); took != 0 || h.Live() != 100 {
			t.Errorf("took %v, %d live", took, h.Live())
		}
		if err := h.Close(); err != nil || v1.closed.Load() {
			t.Errorf("%v, closed %v", err, v1.closed.Load())
		}
		close(forever)
	})
}

// overtaken calls a function while it is prepared, and refuses the config.
type overtaken struct {
	version
	meanwhile func()
}

func (o *overtaken) Prepare([]byte, probe.Target) (probe.Handler, error) {
	o.meanwhile()
	return nil, errTrap
}

// The answer of a generation that was replaced or withdrawn during Prepare does not count.
func TestPrepareDuringReplace(t *testing.T) {
	v1 := new(overtaken)
	h := replace.New(replace.Config{})
	defer h.Close()
	if err := h.Replace(t.Context(), v1); err != nil {
		t.Fatal(err)
	}
	t.Run("replaced", func(t *testing.T) {
		v1.meanwhile = func() {
			if err := h.Replace(t.Context(), &version{number: 2}); err != nil {
				t.Error(err)
			}
		}
		wantAnswer(t, prepareProbe(t, h, "{}"), "v2 {} 1")
	})
	t.Run("withdrawn", func(t *testing.T) {
		v3, why := new(overtaken), errors.New("its file is gone")
		v3.meanwhile = func() {}
		other := handlerWith(t, v3, replace.Config{})
		defer other.Close()
		v3.meanwhile = func() { other.Withdraw(why) }
		if _, err := other.Prepare(nil, probe.Target{}); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}
