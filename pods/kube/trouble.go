package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube/liveness"
)

// lease is the result of the last renewal.
type lease struct {
	mu  sync.Mutex
	err error
}

// renewLease renews the lease of the node until ctx ends, while a pod asks for it. Without such a pod it deletes
// the lease: a lease costs the API server a write every [LeaseInterval].
func (s *Source) renewLease(ctx context.Context) {
	if s.cfg.RenewLease == nil {
		return
	}
	ticker := time.NewTicker(LeaseInterval)
	defer ticker.Stop()
	dropped := false
	for {
		switch asked, known := s.asksForLease(); {
		case asked:
			s.renewOnce(ctx)
			dropped = false
		case known && !dropped:
			dropped = s.dropLease(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// asksForLease reports whether a pod of the node has prober.dev/on-agent-loss: unready, and whether all pods
// of the node are known.
func (s *Source) asksForLease() (asked, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		asked = asked || !p.gone && p.latest.Annotations[AgentLossAnnotation] == agentLossUnready
	}
	return asked, s.synced
}

// dropLease deletes the lease of the node. It returns false if the lease could not be deleted.
func (s *Source) dropLease(ctx context.Context) (ok bool) {
	ctx, cancel := context.WithTimeout(ctx, LeaseInterval)
	defer cancel()
	err := s.cfg.DropLease(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the lease of this agent cannot be deleted", "error", err.Error())
	}
	s.lease.mu.Lock()
	s.lease.err = nil
	s.lease.mu.Unlock()
	return err == nil
}

func (s *Source) renewOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, LeaseInterval)
	defer cancel()
	err := s.cfg.RenewLease(ctx)
	s.lease.mu.Lock()
	before := s.lease.err
	s.lease.err = err
	s.lease.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.Warn("the lease of this agent cannot be renewed", "error", err.Error())
	case err == nil && before != nil:
		s.log.Info("the lease of this agent is renewed again")
	}
}

// Troubles returns the present faults of the source.
func (s *Source) Troubles() (all []pods.Trouble) {
	if since, err := s.watched.trouble(); err != nil {
		all = append(all, pods.Trouble{Name: "api server", Text: fmt.Sprintf("pods cannot be watched since %s: %v", since.Format(time.RFC3339), err)})
	}
	if err := s.spaces.trouble(); err != nil {
		all = append(all, pods.Trouble{Name: "namespaces", Text: "their labels cannot be watched: " + err.Error()})
	}
	if err := s.chosen.trouble(); err != nil {
		all = append(all, pods.Trouble{Name: "policies", Text: "they cannot be watched: " + err.Error()})
	}
	if s.cfg.Runtime != nil {
		if err := s.cfg.Runtime.Trouble(); err != nil {
			all = append(all, pods.Trouble{Name: "runtime", Text: err.Error()})
		}
	}
	s.lease.mu.Lock()
	if s.lease.err != nil {
		all = append(all, pods.Trouble{Name: "lease", Text: "it cannot be renewed: " + s.lease.err.Error()})
	}
	s.lease.mu.Unlock()
	switch node := s.actor.Doubts()[liveness.Scope{}]; { // doubts about namespaces are not faults of the agent
	case node.Blind != "":
		all = append(all, pods.Trouble{Name: "breaker", Text: "no condition becomes false, and nothing is restarted or evicted: " + node.Blind})
	case node.Open != "":
		all = append(all, pods.Trouble{Name: "breaker", Text: "nothing is restarted or evicted: " + node.Open})
	}
	return all
}

// NodeCounts returns the counts for the metrics.
func (s *Source) NodeCounts() agentmetrics.NodeCounts {
	written, acted := s.cfg.Conditions.Counts(), s.actor.Counts()
	n := agentmetrics.NodeCounts{
		PatchesWritten: written.Written, PatchesFailed: written.Failed, PatchesDenied: written.Denied, PatchesPending: written.Pending,
		Done: make(map[string]uint64), Failed: make(map[string]uint64), Withheld: acted.Withheld, BreakerOpen: len(s.actor.Doubts()) > 0,
	}
	for mode, count := range acted.Done {
		n.Done[string(mode)] = count
	}
	for mode, count := range acted.Failed {
		n.Failed[string(mode)] = count
	}
	if s.cfg.Runtime != nil {
		n.CommandsLeft = s.cfg.Runtime.Left()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		n.Followed++
		if p.invalidMessage != "" {
			n.Refused++
		}
	}
	return n
}
