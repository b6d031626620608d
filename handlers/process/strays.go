package process

import (
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
)

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
	if left := procgroup.EndMarked(marks...); left > 0 {
		warnOfStrays(s.logger, s.check, left)
	}
}

func warnOfStrays(logger *slog.Logger, name string, left int) {
	logger.Warn("processes that a plugin has left behind do not end", "handler", name, "processes", left)
}
