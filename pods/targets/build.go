package targets

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods"
)

// list is the list of targets of one source.
type list struct {
	group  *group
	source string // such as "file sd/*.json"
	items  []found
}

// result is the result of build. It is read-only.
type result struct {
	pods    []*declared.Pod
	targets []pods.Target
	counts  []count             // by list
	byItem  map[itemKey]*target // for the next build
	probed  map[types.UID]*target
}

// count has the numbers of probed and dropped targets of a list.
type count struct{ probed, dropped int }

// itemKey identifies a target in a list.
type itemKey struct {
	group   *group
	source  string
	address string
	nth     int // index among the probed targets with the same address, from 0
}

// target is a target after the relabel steps of its group.
type target struct {
	group  *group
	source string            // where it is listed
	inFile bool              // listed by prober.yaml or a file, not by a service, name server or command
	labels map[string]string // as listed

	listed string // the address after relabelling
	name   string
	all    map[string]string // labels after relabelling
	at     address.Address
	reason string // why it is dropped; "" if it is not

	pod *declared.Pod // nil if it is dropped
}

// taken reports whether a pod that is not a target has a name.
type taken func(namespace, name string) bool

// build generates the pods of all lists. It reuses the pod of a target in before that has the same name, address and
// labels after the relabel steps. names has the names of pods that are not targets.
func build(lists []list, before *result, names taken) *result {
	b := builder{
		result: &result{byItem: make(map[itemKey]*target), probed: make(map[types.UID]*target), counts: make([]count, len(lists))},
		before: before, taken: names, names: make(map[types.NamespacedName]types.UID), duplicates: make(map[itemKey]int),
	}
	for i := range lists {
		for j := range lists[i].items {
			b.add(&lists[i], &lists[i].items[j], &b.counts[i])
		}
	}
	return b.result
}

// builder is the state of one call of build.
type builder struct {
	*result
	before     *result
	taken      taken
	names      map[types.NamespacedName]types.UID
	duplicates map[itemKey]int // number of further probed targets, by the key of the first one
}

// add adds one target.
func (b *builder) add(l *list, f *found, n *count) {
	source := sourceOf(l, f)
	key := b.keyOf(l, f)
	t := b.unchanged(key, source, f)
	if t == nil {
		t = newTarget(l.group, source, f)
	}
	shown := pods.Target{
		Group: l.group.name, Namespace: l.group.namespace, Name: t.name, Address: clip.Marked(t.listed, address.Max, "…"), Source: source, Labels: visible(t.all),
		State: pods.TargetDropped, Reason: t.reason,
	}
	uid := uidOf(l.group.namespace, l.group.name, t.name)
	if t.reason == "" {
		shown.Pod, shown.Reason = b.choosePodName(l.group, t, uid)
	} else if t.name != "" {
		shown.Pod = podName(l.group.name, t.name)
	}
	if shown.Reason == "" {
		if t.pod == nil {
			t.pod = b.podBefore(t, uid)
		}
		if t.pod == nil || t.pod.Pod().Name != shown.Pod {
			var err error
			if t.pod, err = newPod(l.group, shown.Pod, t.name, &t.at, t.listed, t.all); err != nil {
				shown.Pod, shown.Reason = podName(l.group.name, t.name), err.Error()
			}
		}
	}
	if shown.Reason != "" {
		if n.dropped++; len(b.targets) < 2*maxTargets {
			b.targets = append(b.targets, shown)
		}
		return
	}
	shown.State = pods.TargetProbed
	n.probed++
	b.byItem[key], b.probed[uid] = t, t
	if key.nth > 0 {
		key.nth = 0
		b.duplicates[key]++
	}
	b.names[types.NamespacedName{Namespace: l.group.namespace, Name: shown.Pod}] = uid
	b.pods, b.targets = append(b.pods, t.pod), append(b.targets, shown)
}

// keyOf returns the key of a target before it is added.
func (b *builder) keyOf(l *list, f *found) itemKey {
	key := itemKey{group: l.group, source: l.source, address: f.address}
	if b.byItem[key] != nil {
		key.nth = 1 + b.duplicates[key]
	}
	return key
}

// unchanged returns the target of the last build whose template inputs are equal to the inputs for f, or nil.
func (b *builder) unchanged(key itemKey, source string, f *found) *target {
	if b.before == nil {
		return nil
	}
	if t := b.before.byItem[key]; t != nil && t.source == source && maps.Equal(t.labels, f.labels) {
		return t
	}
	return nil
}

// podBefore returns the pod of the same target in the last build, or nil. The target may be listed in another place,
// or with different labels that have no effect after relabelling.
func (b *builder) podBefore(t *target, uid types.UID) *declared.Pod {
	if b.before == nil {
		return nil
	}
	old := b.before.probed[uid]
	if old == nil || old.group != t.group || old.listed != t.listed || old.at != t.at || !maps.Equal(old.all, t.all) {
		return nil
	}
	return old.pod
}

// choosePodName returns the name for the pod of a target, and why the target must be dropped; "" if it may be probed.
func (b *builder) choosePodName(g *group, t *target, uid types.UID) (pod, reason string) {
	pod = podName(g.name, t.name)
	if other := b.probed[uid]; other != nil {
		return pod, "the name " + strconv.Quote(t.name) + " is already that of a target at " + other.source
	}
	if len(b.pods) >= maxTargets {
		return pod, errTooMany.Error()
	}
	free := func() bool {
		_, used := b.names[types.NamespacedName{Namespace: g.namespace, Name: pod}]
		return !used && !b.taken(g.namespace, pod)
	}
	if !free() {
		first := pod
		if pod = hashedName(pod, g.name, t.name); !free() {
			return first, fmt.Sprintf("another pod has the name %s/%s", g.namespace, first)
		}
	}
	return pod, ""
}

// newTarget applies the relabel steps of the group to a target.
func newTarget(g *group, source string, f *found) *target {
	all := f.labels
	if len(g.labels) > 0 {
		all = merged(g.labels, f.labels)
	}
	t := &target{group: g, source: source, inFile: f.file != "", labels: f.labels, listed: f.address, all: all}
	if err := checkLabels(all); err != nil {
		t.reason, t.all = err.Error(), nil
		return t
	}
	if len(f.address) > address.Max {
		t.reason = address.ErrLong.Error()
		return t
	}
	var err error
	r := relabel(g.steps, g.name, source, f.address, all)
	t.listed, t.all, t.reason, t.name = r.address, r.labels, r.dropped, r.name
	t.at, err = parseAddress(t.listed)
	t.listed = address.WithoutPassword(t.listed)
	if t.name == "" {
		t.name = t.listed
	}
	if len(t.name) > address.Max {
		t.name = ""
	}
	if t.reason == "" && err != nil {
		t.reason = err.Error()
	}
	return t
}

// parseAddress parses an address, with a host that is valid for a pod.
func parseAddress(text string) (address.Address, error) {
	a, err := address.Parse(text)
	if err == nil {
		a.Host, err = a.PodHost()
	}
	return a, err
}

// sourceOf returns where a target is listed: the source, or for a file its path and line.
func sourceOf(l *list, f *found) string {
	if f.file == "" {
		return l.source
	}
	kind, _, _ := strings.Cut(l.source, " ")
	if f.line == 0 {
		return kind + " " + f.file
	}
	return kind + " " + f.file + ":" + strconv.Itoa(f.line)
}
