package process

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"time"
)

// runVariable marks a program, and with it all that the program starts. Whoever leaves its
// group, in a session of its own, say, or with a parent that has ended, has its
// environment still.
const runVariable = "PROBER_RUN_ID="

// newMark returns what no other program has in its environment. The mark of a part of it is
// the mark, a text, and a dot.
func newMark() string { return runVariable + rand.Text() + "." }

// strayLimit is how long processes that got away are killed for, if that does not help or
// there are ever more of them.
const strayLimit = 2 * time.Second

// endStrays kills the processes whose environment has one of marks, and those that they
// start meanwhile. It reports how many are left.
func endStrays(marks ...string) (left int) {
	const rounds = 2 // without any: what starts while all are looked through is in neither place
	deadline := time.Now().Add(strayLimit)
	for quiet := 0; quiet < rounds; {
		found, refused := killMarked(marks)
		switch {
		case found == 0:
			quiet++
			continue
		case found == refused, time.Now().After(deadline):
			return found
		}
		quiet = 0
		time.Sleep(time.Millisecond) // until they have ended
	}
	return 0
}

// maxSweepPause is the longest time between two looks of a sweeper.
const maxSweepPause = 5 * time.Second

// sweeper ends what the runs of a check have left behind, beside the attempts: there may be
// many runs, and to look for it takes a look at every process there is. It takes a tenth of
// the time at most.
type sweeper struct {
	logger *slog.Logger
	check  string
	closed chan struct{}

	mu       sync.Mutex
	wanted   []string // the marks of runs
	sweeping bool
	work     sync.WaitGroup
}

// sweep ends what is left of the run with mark, soon.
func (s *sweeper) sweep(mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted = append(s.wanted, mark); !s.sweeping {
		s.sweeping = true
		s.work.Go(s.run)
	}
}

// close ends what is still wanted, and all that is left of runs whose marks begin with mark.
func (s *sweeper) close(mark string) {
	close(s.closed)
	s.work.Wait()
	s.end(mark)
}

// run sweeps until nothing is wanted.
func (s *sweeper) run() {
	for {
		s.mu.Lock()
		marks := s.wanted
		s.wanted, s.sweeping = nil, len(marks) > 0
		s.mu.Unlock()
		if len(marks) == 0 {
			return
		}
		start := time.Now()
		s.end(marks...)
		select {
		case <-time.After(min(9*time.Since(start), maxSweepPause)):
		case <-s.closed:
		}
	}
}

func (s *sweeper) end(marks ...string) {
	if left := endStrays(marks...); left > 0 {
		warnOfStrays(s.logger, s.check, left)
	}
}

func warnOfStrays(logger *slog.Logger, name string, left int) {
	logger.Warn("processes that a plugin has left behind do not end", "handler", name, "processes", left)
}
