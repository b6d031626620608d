package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
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
	"github.com/daeace23/prober/pods"
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
	ID        string                `json:"id"`
	Hash      string                `json:"hash"` // of the definition
	StartedAt time.Time             `json:"startedAt"`
	Restarts  int32                 `json:"restarts"`
	Started   bool                  `json:"started"`
	Ready     bool                  `json:"ready"`
	Results   map[probe.Kind]string `json:"results,omitzero"` // a key of savedResults
}

// savedResults are the results that are saved, by their names in the file.
var savedResults = map[string]results.Result{"success": results.Success, "failure": results.Failure}

// stateDir is a folder with one file for each pod that has external targets.
type stateDir struct {
	path string

	mu      sync.Mutex
	unsaved map[types.UID]struct{} // pods whose newest state could not be saved
	saving  pods.Saving
}

// The pause between attempts to save a pod's state doubles from minSavePause to maxSavePause.
const (
	minSavePause = time.Second
	maxSavePause = 30 * time.Second
)

// Saving returns the status of saving to StateDir.
func (p *Pods) Saving() pods.Saving {
	if p.state == nil {
		return pods.Saving{}
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	return p.state.saving
}

// failed records that a pod could not be saved. It reports whether all others are saved.
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

// settled records that a pod is saved. It reports whether the pod was the last unsaved one.
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

// load creates the folder if it is missing, and reads its files. It logs and ignores files that
// cannot be read, and removes unfinished ones.
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
		if strings.HasSuffix(e.Name(), stateSuffix+newSuffix) {
			_ = os.Remove(file) // a later save of the pod would replace it
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
	newSuffix   = ".new"   // added to the name of a file while it is written
	maxState    = 16 << 20 // bytes of a file: far more than one pod has
)

// file returns the path of a pod's file. A UID may contain any character.
func (s *stateDir) file(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return filepath.Join(s.path, hex.EncodeToString(sum[:16])+stateSuffix)
}

func readState(file string) (saved savedPod, err error) {
	text, err := regular.Read(file, maxState)
	if err != nil {
		return saved, err
	}
	err = json.Unmarshal(text, &saved)
	return saved, err
}

// save replaces the file of a pod.
func (s *stateDir) save(saved savedPod) error {
	text, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return err
	}
	file := s.file(saved.UID)
	if err := os.WriteFile(file+newSuffix, text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+newSuffix, file)
}

func (s *stateDir) remove(uid types.UID) error {
	_ = os.Remove(s.file(uid) + newSuffix) // of a save that failed
	if err := os.Remove(s.file(uid)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// save saves the state of the pod if it has changed. It saves nothing of a pod whose end has
// begun: the next agent restores the state before that. If it fails, retry is the time of the next
// attempt. Otherwise retry is zero.
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
	case p.saveAt.After(time.Now()) && !terminating: // a pod that terminates has no next attempt
		return p.saveAt
	}
	if err := dir.save(state); err != nil {
		p.savePause = min(max(2*p.savePause, minSavePause), maxSavePause)
		p.saveAt = time.Now().Add(p.savePause)
		if dir.failed(p.uid, err) {
			p.owner.host.Logger.Error("state could not be saved, and is tried again", "pod", p.format(), "err", err)
		}
		return p.saveAt
	}
	p.mu.Lock()
	p.saved = state
	p.mu.Unlock()
	p.settle()
	return time.Time{}
}

// settle records that the state of the pod is saved.
func (p *pod) settle() {
	p.savePause, p.saveAt = 0, time.Time{}
	if p.owner.state.settled(p.uid) {
		p.owner.host.Logger.Info("no state waits to be saved any more")
	}
}

// stateLocked returns the state of the pod to save.
func (p *pod) stateLocked(status *v1.PodStatus) savedPod {
	saved := savedPod{
		UID: p.uid, Namespace: p.spec.Namespace, Name: p.spec.Name, StartTime: p.begun.Time,
		Containers: make(map[string]savedContainer),
	}
	for _, c := range status.Conditions {
		saved.Ready = saved.Ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
	for _, c := range p.containers {
		if c.process != nil || !c.running() {
			continue
		}
		s := statusNamed(status.ContainerStatuses, c.name)
		if s == nil {
			s = statusNamed(status.InitContainerStatuses, c.name)
		}
		if s == nil || s.ContainerID != c.id {
			continue
		}
		kept := savedContainer{
			ID: c.id, Hash: c.hash, StartedAt: c.started, Restarts: c.restarts,
			Started: s.Started != nil && *s.Started, Ready: s.Ready, Results: make(map[probe.Kind]string),
		}
		for _, kind := range probe.Kinds {
			if d := p.decided(kind, c.id); c.probes.kinds[kind] && d.found && d.result != results.Unknown {
				kept.Results[kind] = d.result.Word()
			}
		}
		saved.Containers[c.name] = kept
	}
	return saved
}

// restoreLocked restores the external targets whose definition has not changed since the agent
// before this one saved them.
func (p *pod) restoreLocked(saved savedPod) {
	now := time.Now()
	if saved.StartTime.Before(now) && !saved.StartTime.IsZero() {
		p.begun = metav1.NewTime(saved.StartTime)
	}
	for name, kept := range saved.Containers {
		c := p.containerLocked(name)
		if c == nil || !c.external || kept.Hash != p.hashOf(c.spec) || kept.ID == "" {
			delete(saved.Containers, name)
			continue
		}
		c.id, c.hash, c.restarts = kept.ID, kept.Hash, kept.Restarts
		p.runningLocked(c, nil)
		c.started = kept.StartedAt
		if !c.started.Before(now) { // the clock was turned back
			c.started = now.Add(-time.Second)
		}
		subject := &results.Subject{Namespace: p.spec.Namespace, Pod: p.spec.Name, PodUID: string(p.uid), Container: name}
		for kind, word := range kept.Results {
			if r, ok := savedResults[word]; ok && c.probes.kinds[kind] {
				p.owner.manager.Results(kind).Set(kept.ID, r, subject, results.Cause{Reason: results.Restored})
			}
		}
	}
	p.saved = saved
}

// firstStatus returns the pod and the status to publish before it is probed. External targets have
// the status that the agent before this one saved.
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
