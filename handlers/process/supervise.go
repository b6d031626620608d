package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/probe"
)

// keeper keeps one process of a plugin running. When an attempt needs a process that has ended, the keeper
// starts a new one: immediately the first time, then after a growing pause. A start continues even after
// the attempt that caused it has ended.
type keeper struct {
	handler *Handler
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu       sync.Mutex
	program  *sealed.Copy // nil after close
	current  *instance
	starting chan struct{} // closed when the current start has ended; nil if there is none
	ends     int           // number of short-lived processes in a row
	restAt   time.Time     // end of the pause: no start before
	cause    error         // cause of the last end
	broken   bool          // the last process ended before its first request
	starts   uint64
}

func newKeeper(h *Handler, p *sealed.Copy) *keeper {
	k := &keeper{handler: h, program: p}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// process returns the running process. It waits for a start until ctx ends. number is the number of the
// attempt in its tick. The error matches [probe.ErrNoSlot] if the process is being restarted.
func (k *keeper) process(ctx context.Context, number int) (*instance, error) {
	k.mu.Lock()
	if k.program == nil {
		k.mu.Unlock()
		return nil, attempt.ErrClosed
	}
	if in := k.current; in != nil && in.child.ready() {
		k.mu.Unlock()
		return in, nil
	}
	if k.starting == nil {
		if err := k.beginLocked(number); err != nil {
			k.mu.Unlock()
			return nil, err
		}
	}
	starting := k.starting
	k.mu.Unlock()
	select {
	case <-starting:
	case <-ctx.Done():
		return nil, &attempt.Skipped{Err: errors.New("the process has not started yet")}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch in := k.current; {
	case k.program == nil:
		return nil, attempt.ErrClosed
	case in != nil && in.child.ready():
		return in, nil
	case in != nil: // the process has ended meanwhile
		k.retireLocked(in)
	}
	return nil, k.failureLocked(number)
}

// await is like process, but also waits for the end of a pause, if the pause ends before the deadline of
// ctx.
func (k *keeper) await(ctx context.Context) (*instance, error) {
	for {
		in, err := k.process(ctx, 1)
		if err == nil || err == attempt.ErrClosed {
			return in, err
		}
		k.mu.Lock()
		rest := max(time.Until(k.restAt), k.handler.cfg.Pause/10)
		k.mu.Unlock()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < rest {
			return nil, err
		}
		if pace.Wait(ctx, nil, rest); ctx.Err() != nil {
			return nil, err
		}
	}
}

// beginLocked begins a start, unless there is a pause.
func (k *keeper) beginLocked(number int) error {
	if k.current != nil {
		k.retireLocked(k.current)
	}
	if k.cause != nil && (number > 1 || time.Now().Before(k.restAt)) {
		return k.failureLocked(number)
	}
	k.starting = make(chan struct{})
	k.starts++
	program := k.program
	k.work.Go(func() { k.start(program) })
	return nil
}

// start starts a process, and closes k.starting for the attempts that wait.
func (k *keeper) start(program *sealed.Copy) {
	h := k.handler
	in, err := start(k.ctx, h, program)
	k.mu.Lock()
	switch {
	case err != nil:
		k.cause, k.broken = err, true
		k.pauseLocked()
	case k.program == nil: // closed meanwhile
		k.work.Go(func() { in.stop(true) })
	default:
		k.current = in
		k.work.Go(func() { k.watch(in) })
	}
	close(k.starting)
	k.starting = nil
	k.mu.Unlock()
	if err != nil && k.ctx.Err() == nil {
		h.cfg.Logger.Warn("a plugin's process does not start", "handler", h.manifest.Name, "error", err.Error())
	}
}

// watch retires a process when it has ended, without waiting for an attempt.
func (k *keeper) watch(in *instance) {
	select {
	case <-in.child.exited:
	case <-k.ctx.Done():
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == in {
		k.retireLocked(in)
	}
}

// retireLocked records how the current process has ended, and starts its cleanup.
func (k *keeper) retireLocked(in *instance) {
	k.current = nil
	k.cause, k.broken = fmt.Errorf("the process ended: %s", in.child.exitStatus(false)), !in.used.Load()
	if time.Since(in.since) > k.handler.cfg.MaxPause {
		k.ends = 0
	}
	k.pauseLocked()
	cause := k.cause
	k.work.Go(func() {
		in.stop(false)
		k.handler.cfg.Logger.Warn("a plugin's process has ended", "handler", k.handler.manifest.Name, "error", cause.Error())
	})
}

// pauseLocked sets the time before which no process is started.
func (k *keeper) pauseLocked() {
	cfg := &k.handler.cfg
	pause := time.Duration(0)
	if k.ends > 0 {
		pause = cfg.MaxPause
		if doublings := k.ends - 1; doublings < 30 {
			pause = min(cfg.Pause<<doublings, cfg.MaxPause)
		}
	}
	k.ends++
	k.restAt = time.Now().Add(pause)
}

// failureLocked returns the error of an attempt without a process. If the last process never served a
// request, the plugin cannot be instantiated. Otherwise the process is being restarted and the tick is
// skipped, unless the process ended in this tick.
func (k *keeper) failureLocked(number int) error {
	err := k.cause
	if rest := time.Until(k.restAt); rest > 0 {
		err = fmt.Errorf("%w (it is started again in %s)", err, rest.Round(time.Millisecond))
	}
	switch {
	case k.broken:
		return startError(err)
	case number > 1:
		return &probe.Error{Reason: probe.ReasonTrap, Err: err}
	default:
		return &attempt.Skipped{Err: err}
	}
}

// startError adds a reason to the error of a start. If the host lacked a descriptor, memory or a process,
// the reason says that the plugin is not at fault.
func startError(err error) error {
	if isHostTrouble(err) {
		return &probe.Error{Reason: probe.ReasonHostResources, Err: err}
	}
	return &probe.Error{Reason: probe.ReasonInstantiate, Err: err}
}

// isHostTrouble reports whether a start failed because of the host. fork returns EAGAIN if it cannot make
// another process.
func isHostTrouble(err error) bool {
	return probe.HostReason(err) == probe.ReasonHostResources || errors.Is(err, syscall.EAGAIN)
}

// close ends the process or its start.
func (k *keeper) close() error {
	k.mu.Lock()
	program, in := k.program, k.current
	k.program, k.current = nil, nil
	k.mu.Unlock()
	if program == nil {
		return nil
	}
	k.cancel()
	if in != nil {
		in.stop(true)
	}
	k.work.Wait()
	return program.Close()
}
