package stream

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// names finds pods with probes by name. The zero value is empty.
type names struct {
	mu   sync.Mutex
	pods map[string]*pod // head of the list of pods with the name
}

// pod is a pod with probes.
type pod struct {
	uid    types.UID
	name   string
	probes int  // guarded by names.mu, like next
	next   *pod // pod of the same name, in another namespace or during a replacement
}

// add counts a probe of a pod.
func (n *names) add(uid types.UID, name string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := n.pods[name]; p != nil; p = p.next {
		if p.uid == uid {
			p.probes++
			return p
		}
	}
	if n.pods == nil {
		n.pods = make(map[string]*pod)
	}
	p := &pod{uid, name, 1, n.pods[name]}
	n.pods[name] = p
	return p
}

// remove undoes an add.
func (n *names) remove(p *pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.probes--; p.probes > 0 {
		return
	}
	first := n.pods[p.name]
	for at := &first; *at != nil; at = &(*at).next {
		if *at == p {
			*at = p.next
			break
		}
	}
	if n.pods[p.name] = first; first == nil {
		delete(n.pods, p.name)
	}
}

func (n *names) uids(name string) (uids []types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := n.pods[name]; p != nil; p = p.next {
		uids = append(uids, p.uid)
	}
	return uids
}
