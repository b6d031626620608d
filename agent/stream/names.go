package stream

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// names finds pods with probes by name. The zero value is empty.
type names struct {
	mu   sync.Mutex
	pods map[string][]*pod // mostly one; more in other namespaces, or while one is replaced
}

// pod is a pod with probes.
type pod struct {
	uid    types.UID
	name   string
	probes int // guarded by names.mu
}

// add counts a probe of a pod.
func (n *names) add(uid types.UID, name string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods[name] {
		if p.uid == uid {
			p.probes++
			return p
		}
	}
	if n.pods == nil {
		n.pods = make(map[string][]*pod)
	}
	p := &pod{uid, name, 1}
	n.pods[name] = append(n.pods[name], p)
	return p
}

// remove takes back an add.
func (n *names) remove(p *pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.probes--; p.probes > 0 {
		return
	}
	left := slices.DeleteFunc(n.pods[p.name], func(o *pod) bool { return o == p })
	if n.pods[p.name] = left; len(left) == 0 {
		delete(n.pods, p.name)
	}
}

func (n *names) uids(name string) (uids []types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods[name] {
		uids = append(uids, p.uid)
	}
	return uids
}
