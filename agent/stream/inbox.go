package stream

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
)

// inbox has changes without a tick, until the session takes them. It keeps the newest change of each object.
type inbox struct {
	mu     sync.Mutex
	probes map[manager.Key]struct{}
	pods   map[types.UID]pods.Change
	events map[string]v1.Event // by name
	order  []string            // of events, by their first change that was not taken
}

func (i *inbox) addProbe(key manager.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.probes == nil {
		i.probes = make(map[manager.Key]struct{})
	}
	i.probes[key] = struct{}{}
}

func (i *inbox) addPod(c pods.Change) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pods == nil {
		i.pods = make(map[types.UID]pods.Change)
	}
	i.pods[c.Pod.UID] = c
}

func (i *inbox) addEvent(e v1.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.events == nil {
		i.events = make(map[string]v1.Event)
	}
	if _, known := i.events[e.Name]; !known {
		i.order = append(i.order, e.Name)
	}
	i.events[e.Name] = e
	if len(i.order) > events.Max {
		delete(i.events, i.order[0])
		i.order = i.order[1:]
	}
}

// changes are the contents of an inbox.
type changes struct {
	probes map[manager.Key]struct{}
	pods   map[types.UID]pods.Change
	events []v1.Event
}

// take empties the inbox.
func (i *inbox) take() changes {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := changes{probes: i.probes, pods: i.pods}
	for _, name := range i.order {
		c.events = append(c.events, i.events[name])
	}
	i.probes, i.pods, i.events, i.order = nil, nil, nil, nil
	return c
}
