package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/internal/statefile"
	"github.com/daeace23/prober/pods"
)

const (
	// saveInterval is how long changes are collected before they are saved. If the agent is killed,
	// they are lost, and the probes of the next agent decide again.
	saveInterval = 5 * time.Second
	// The pause between attempts after a failed save doubles from minSavePause to maxSavePause.
	minSavePause = time.Second
	maxSavePause = 30 * time.Second
	// endSaveTimeout is how long Stop waits for the disk after the end of its context.
	endSaveTimeout = 5 * time.Second
)

// saver keeps the state of pods in a folder, with one file for each pod that has external targets.
// One goroutine writes all files. So a slow disk delays no pod, and many changes at once do not block
// a thread each.
type saver struct {
	dir  string
	log  *slog.Logger
	wake chan struct{} // holds a token while changed may have pods
	done chan struct{} // closed at the end of run
	// create creates a file. Only tests change it after newSaver.
	create func(path string) (*os.File, error)

	mu      sync.Mutex
	changed map[types.UID]*pod // pods to save; nil: remove the file of a pod that is gone
	failed  map[types.UID]*pod // pods whose last save failed
	saving  pods.Saving

	// The rest is owned by run.
	written map[types.UID][sha256.Size]byte // digests of the files; zero if not known
	pause   time.Duration                   // between attempts to save the failed pods; 0: none failed
	retry   time.Time                       // time of the next attempt
}

// newSaver creates the folder if it is missing, and returns the state in it.
func newSaver(dir string, log *slog.Logger) (*saver, map[types.UID]savedPod, error) {
	s := &saver{
		dir: dir, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), create: create,
		changed: make(map[types.UID]*pod), failed: make(map[types.UID]*pod), written: make(map[types.UID][sha256.Size]byte),
	}
	prior, err := s.load()
	for uid := range prior {
		s.written[uid] = [sha256.Size]byte{}
	}
	return s, prior, err
}

// Saving returns the status of saving to StateDir.
func (p *Pods) Saving() pods.Saving {
	if p.state == nil {
		return pods.Saving{}
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	return p.state.saving
}

// save queues a pod to be saved. A nil pod removes the saved state.
func (s *saver) save(uid types.UID, pod *pod) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.changed[uid] = pod
	s.mu.Unlock()
	wake(s.wake)
}

// run saves changed pods until ctx ends, and then all remaining ones.
func (s *saver) run(ctx context.Context) {
	defer close(s.done)
	for s.await(ctx) {
		s.saveAll(s.due(false))
	}
	s.saveAll(s.due(true))
}

// await waits until there are pods to save. It returns false at the end of ctx.
func (s *saver) await(ctx context.Context) bool {
	var retry <-chan time.Time
	if s.pause > 0 {
		timer := time.NewTimer(time.Until(s.retry))
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case <-s.wake:
		pace.Wait(ctx, nil, saveInterval)
	case <-retry:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// due returns the pods to save now. With all set, it includes failed ones before their retry time.
func (s *saver) due(all bool) map[types.UID]*pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := make(map[types.UID]*pod)
	if all || s.pause > 0 && !s.retry.After(time.Now()) {
		maps.Copy(due, s.failed)
	}
	maps.Copy(due, s.changed)
	s.changed = make(map[types.UID]*pod)
	return due
}

// saveAll saves the pods in due.
func (s *saver) saveAll(due map[types.UID]*pod) {
	for uid, pod := range due {
		if err := s.put(uid, pod); err != nil {
			s.fail(uid, pod, err)
		} else {
			s.succeed(uid)
		}
	}
	switch now := time.Now(); {
	case len(s.failed) == 0: // only this goroutine changes it
		s.pause = 0
	case s.pause == 0 || !s.retry.After(now):
		s.pause = min(max(2*s.pause, minSavePause), maxSavePause)
		s.retry = now.Add(s.pause)
	}
}

// fail records that a pod could not be saved.
func (s *saver) fail(uid types.UID, pod *pod, err error) {
	s.mu.Lock()
	first := len(s.failed) == 0
	s.failed[uid] = pod
	s.saving.Failures++
	s.saving.Err = err
	if first {
		s.saving.Since = time.Now()
	}
	s.mu.Unlock()
	if first {
		name := string(uid)
		if pod != nil {
			name = pod.format()
		}
		s.log.Error("state could not be saved, and is tried again", "pod", name, "err", err)
	}
}

// succeed records that a pod is saved.
func (s *saver) succeed(uid types.UID) {
	s.mu.Lock()
	_, had := s.failed[uid]
	delete(s.failed, uid)
	last := had && len(s.failed) == 0
	if last {
		s.saving.Since, s.saving.Err = time.Time{}, nil
	}
	s.mu.Unlock()
	if last {
		s.log.Info("all state is saved again")
	}
}

// put writes the present state of a pod to its file, or removes the file if there is nothing to save.
func (s *saver) put(uid types.UID, pod *pod) error {
	var state savedPod
	if pod != nil {
		state = pod.state()
	}
	was, exists := s.written[uid]
	if len(state.Containers) == 0 {
		if !exists {
			return nil
		}
		err := s.remove(uid)
		if err == nil {
			delete(s.written, uid)
		}
		return err
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	if exists && digest == was {
		return nil
	}
	s.written[uid] = [sha256.Size]byte{}
	if err := s.write(uid, text); err != nil {
		return err
	}
	s.written[uid] = digest
	return nil
}

// end waits for the end of run, whose context has ended. After the end of ctx it waits at most endSaveTimeout.
func (s *saver) end(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(endSaveTimeout):
		return fmt.Errorf("state directory %s: the disk did not answer within %s: state of external targets is not saved", s.dir, endSaveTimeout)
	}
}

// load creates the folder if it is missing, and reads its files. It logs and ignores files that
// cannot be read, and removes unfinished ones.
func (s *saver) load() (map[types.UID]savedPod, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	all := make(map[types.UID]savedPod)
	for _, e := range entries {
		file := filepath.Join(s.dir, e.Name())
		if strings.HasSuffix(e.Name(), stateSuffix+newSuffix) {
			_ = os.Remove(file) // left by an interrupted save
		}
		if !strings.HasSuffix(e.Name(), stateSuffix) {
			continue
		}
		saved, err := readState(file)
		if err != nil {
			statefile.Keep(s.log, "the state of a pod of an earlier agent cannot be read: it begins again", file, err)
			continue
		}
		all[saved.UID] = saved
	}
	return all, nil
}

const (
	stateSuffix = ".pod.json"
	newSuffix   = ".new"   // added to the name of a file while it is written
	maxState    = 16 << 20 // bytes of a file: far more than one pod needs
)

// file returns the path of a pod's file. A UID may contain any character.
func (s *saver) file(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+stateSuffix)
}

func readState(file string) (saved savedPod, err error) {
	text, err := statefile.Read(file, maxState)
	if err != nil {
		return saved, err
	}
	err = json.Unmarshal(text, &saved)
	return saved, err
}

func create(path string) (*os.File, error) {
	return ownership.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// write replaces the file of a pod.
func (s *saver) write(uid types.UID, text []byte) error {
	file := s.file(uid)
	_ = os.Remove(file + newSuffix) // left by a failed save, or created by others
	f, err := s.create(file + newSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(file+newSuffix, file)
}

func (s *saver) remove(uid types.UID) error {
	_ = os.Remove(s.file(uid) + newSuffix) // left by a failed save
	if err := os.Remove(s.file(uid)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// wake sends to ch if it is empty.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
