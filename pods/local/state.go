package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/probe"
)

// savedPod is the state of a pod with external targets that survives a restart of the agent.
type savedPod struct {
	UID        types.UID                 `json:"uid"`
	Namespace  string                    `json:"namespace"`
	Name       string                    `json:"name"`
	StartTime  time.Time                 `json:"startTime"`
	Ready      bool                      `json:"ready"` // the pod's condition
	Containers map[string]savedContainer `json:"containers"`
}

type savedContainer struct {
	ID        string                        `json:"id"`
	Hash      string                        `json:"hash"` // of the definition
	StartedAt time.Time                     `json:"startedAt"`
	Restarts  int32                         `json:"restarts"`
	Started   bool                          `json:"started"`
	Ready     bool                          `json:"ready"`
	Results   map[probe.Kind]results.Result `json:"-"`
	Decided   map[probe.Kind]string         `json:"results,omitzero"` // the words of Results
}

// words are the results that are saved, by their names in the file.
var words = map[string]results.Result{"success": results.Success, "failure": results.Failure}

// stateDir is a folder with one file for each pod that has external targets.
type stateDir struct {
	path string

	mu      sync.Mutex
	unsaved map[types.UID]struct{} // pods whose newest state could not be saved
	saving  Saving
}

// The pauses between attempts to save a pod's state double from the first to the second.
const (
	minSavePause = time.Second
	maxSavePause = 30 * time.Second
)

// Saving returns the status of saving to StateDir.
func (p *Pods) Saving() Saving {
	if p.state == nil {
		return Saving{}
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	return p.state.saving
}

// failed notes that a pod could not be saved and reports whether it is the only one.
func (s *stateDir) failed(uid types.UID, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saving.Failures++
	s.saving.Err = err
	if first = len(s.unsaved) == 0; first {
		s.saving.Since = time.Now()
	}
	s.unsaved[uid] = struct{}{}
	return first
}

// settled notes that nothing of a pod waits to be saved. It reports whether the pod was the
// last one of which something did.
func (s *stateDir) settled(uid types.UID) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.unsaved[uid]; !ok {
		return false
	}
	delete(s.unsaved, uid)
	if last = len(s.unsaved) == 0; last {
		s.saving.Since, s.saving.Err = time.Time{}, nil
	}
	return last
}

// load creates the folder when it is missing, and reads its files. A file that cannot be read is
// logged and ignored.
func (s *stateDir) load(log *slog.Logger) (map[types.UID]savedPod, error) {
	if err := os.MkdirAll(s.path, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	all := make(map[types.UID]savedPod)
	for _, e := range entries {
		file := filepath.Join(s.path, e.Name())
		if isLeft(e) {
			if err := os.Remove(file); err != nil {
				log.Warn("unfinished file not removed", "file", file, "err", err)
			}
		}
		if !strings.HasSuffix(e.Name(), stateSuffix) {
			continue
		}
		saved, err := readState(file)
		if err != nil {
			log.Warn("saved state ignored", "file", file, "err", err)
			continue
		}
		all[saved.UID] = saved
	}
	return all, nil
}

const (
	stateSuffix = ".pod.json"
	unfinished  = "new-" // prefix of a file that is being written
	keepLeft    = time.Hour
	maxState    = 16 << 20 // bytes of a file: far more than one pod has
)

// isLeft reports whether a file is left over from a save during which the agent was killed.
func isLeft(e fs.DirEntry) bool {
	digits, ok := strings.CutPrefix(e.Name(), unfinished)
	if !ok || digits == "" || !e.Type().IsRegular() || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > keepLeft
}

// file returns the name of a pod's file. A UID may hold anything.
func (s *stateDir) file(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return filepath.Join(s.path, hex.EncodeToString(sum[:16])+stateSuffix)
}

func readState(file string) (savedPod, error) {
	var saved savedPod
	text, err := regular.Read(file, maxState)
	if err != nil {
		return saved, err
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return saved, err
	}
	for name, c := range saved.Containers {
		c.Results = make(map[probe.Kind]results.Result)
		for kind, word := range c.Decided {
			if r, ok := words[word]; ok {
				c.Results[kind] = r
			}
		}
		c.Decided = nil
		saved.Containers[name] = c
	}
	return saved, nil
}

// save writes a pod's file, at once and as a whole.
func (s *stateDir) save(saved savedPod) error {
	for name, c := range saved.Containers {
		c.Decided = make(map[probe.Kind]string)
		for kind, r := range c.Results {
			c.Decided[kind] = r.Word()
		}
		saved.Containers[name] = c
	}
	text, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(s.path, unfinished+"*") // for its owner only
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), s.file(saved.UID))
}

func (s *stateDir) remove(uid types.UID) error {
	err := os.Remove(s.file(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// save writes what the state directory is to know of the pod, if that has changed. A
// pod whose end has begun is left as it was: the next agent finds it so. What could not be
// written is to be saved again at retry, which is zero otherwise.
func (p *pod) save() (retry time.Time) {
	dir := p.owner.state
	if dir == nil {
		return time.Time{}
	}
	status, _ := p.owner.store.PodStatus(p.uid)
	p.mu.Lock()
	state, written, stopped, terminating := p.stateLocked(&status), p.saved, p.stopped, p.terminating
	p.mu.Unlock()
	switch {
	case stopped:
		return time.Time{}
	case len(state.Containers) == 0 || reflect.DeepEqual(state, written):
		p.settle()
		return time.Time{}
	case p.saveAt.After(time.Now()) && !terminating: // which is the last occasion
		return p.saveAt
	}
	kept := state
	kept.Containers = maps.Clone(state.Containers)
	if err := dir.save(kept); err != nil {
		p.savePause = min(max(2*p.savePause, minSavePause), maxSavePause)
		p.saveAt = time.Now().Add(p.savePause)
		if dir.failed(p.uid, err) {
			p.owner.cfg.Logger.Error("state could not be saved, and is tried again", "pod", p.format(), "err", err)
		}
		return p.saveAt
	}
	p.mu.Lock()
	p.saved = state
	p.mu.Unlock()
	p.settle()
	return time.Time{}
}

// settle notes that the state directory has what it is to know of the pod.
func (p *pod) settle() {
	p.savePause, p.saveAt = 0, time.Time{}
	if p.owner.state.settled(p.uid) {
		p.owner.cfg.Logger.Info("no state waits to be saved any more")
	}
}

// stateLocked returns what is to be kept of the pod.
func (p *pod) stateLocked(status *v1.PodStatus) savedPod {
	saved := savedPod{
		UID: p.uid, Namespace: p.spec.Namespace, Name: p.spec.Name, StartTime: p.begun.Time,
		Containers: make(map[string]savedContainer),
	}
	for _, c := range status.Conditions {
		saved.Ready = saved.Ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
	for name, c := range p.containers {
		if c.process != nil || !c.running() {
			continue
		}
		s := statusNamed(status.ContainerStatuses, name)
		if s == nil {
			s = statusNamed(status.InitContainerStatuses, name)
		}
		if s == nil || s.ContainerID != c.id {
			continue
		}
		kept := savedContainer{
			ID: c.id, Hash: c.hash, StartedAt: c.started, Restarts: c.restarts,
			Started: s.Started != nil && *s.Started, Ready: s.Ready, Results: make(map[probe.Kind]results.Result),
		}
		for kind := range p.probes[name].kinds {
			if d := p.decided(kind, c.id); d.found && d.result != results.Unknown {
				kept.Results[kind] = d.result
			}
		}
		saved.Containers[name] = kept
	}
	return saved
}

// restoreLocked makes external targets what they were under the agent before this
// one, unless they are not the same any more.
func (p *pod) restoreLocked(saved savedPod) {
	now := time.Now()
	if saved.StartTime.Before(now) && !saved.StartTime.IsZero() {
		p.begun = metav1.NewTime(saved.StartTime)
	}
	for name, kept := range saved.Containers {
		c := p.containers[name]
		if c == nil || !c.external || kept.Hash != p.hashOf(c.spec) || kept.ID == "" {
			delete(saved.Containers, name)
			continue
		}
		c.id, c.hash, c.restarts = kept.ID, kept.Hash, kept.Restarts
		l := surroundings(p.spec, c.spec)
		c.dir, c.env = l.Dir, l.Env
		p.runningLocked(c, nil)
		c.started = kept.StartedAt
		if !c.started.Before(now) { // the clock was turned back
			c.started = now.Add(-time.Second)
		}
		subject := &results.Subject{Namespace: p.spec.Namespace, Pod: p.spec.Name, PodUID: string(p.uid), Container: name}
		for kind, r := range kept.Results {
			if p.probes[name].kinds.Has(kind) {
				p.owner.manager.Results(kind).Set(kept.ID, r, subject, results.Restored)
			}
		}
	}
	p.saved = saved
}

// firstStatus returns the pod and the status to publish before it is probed: for
// external targets what the agent before this one knew.
func (p *pod) firstStatus() (*v1.Pod, v1.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.statusLocked()
	for _, list := range [...][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if kept, ok := p.saved.Containers[list[i].Name]; ok {
				list[i].Started, list[i].Ready = new(kept.Started), kept.Ready
			}
		}
	}
	var old v1.PodStatus
	setConditions(p.spec, &old, &status)
	for i := range status.Conditions {
		if status.Conditions[i].Type == v1.PodReady && p.saved.Ready && len(p.saved.Containers) > 0 {
			status.Conditions[i] = v1.PodCondition{
				Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: status.Conditions[i].LastTransitionTime,
			}
		}
	}
	return p.spec, status
}
