package adverse

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Random returns a variant of the plan, or a variant with random changes: of bytes, of numbers and values, of
// the end, and of the timing. It returns false if the case has no peer that can be varied.
func (p *Plan) Random(r *rand.Rand) (Variant, bool) {
	if len(p.Variants) == 0 {
		return Variant{}, false
	}
	scripts, exchanges := slices.Sorted(maps.Keys(p.scripts)), slices.Sorted(maps.Keys(p.exchanges))
	const share = 5 // one in five is a variant of the plan
	total := len(scripts) + len(exchanges)
	if total == 0 || r.IntN(share) == 0 {
		return p.Variants[r.IntN(len(p.Variants))], true
	}
	i := r.IntN(total)
	if i < len(scripts) {
		return p.scripts[scripts[i]].random(r, scripts[i]), true
	}
	i = exchanges[i-len(scripts)]
	return p.exchanges[i].random(r, i), true
}

const (
	maxChanges  = 6       // of one variant
	maxDataSize = 1 << 20 // of changed data: the host reads no more

	maxRewritten = 16 << 10 // of data whose values are changed
)

// change is a change of data that depends only on its seed.
type change uint64

func changes(r *rand.Rand) []change {
	all := make([]change, 1+r.IntN(maxChanges))
	for i := range all {
		all[i] = change(r.Uint64())
	}
	return all
}

// apply returns the changed data. It is not empty.
func (c change) apply(data []byte) []byte {
	r := rand.New(rand.NewPCG(uint64(c), 0))
	changed := data
	if r.IntN(2) == 0 && len(data) <= maxRewritten {
		if known := rewrites(data); len(known) > 0 {
			changed = known[r.IntN(len(known))].data()
		}
	} else if len(data) > 0 {
		changed = scrambled(r, data)
	}
	if len(changed) == 0 || len(changed) > maxDataSize {
		return data
	}
	return changed
}

// scrambled returns data with one part changed, removed, repeated or inserted.
func scrambled(r *rand.Rand, data []byte) []byte {
	from := r.IntN(len(data))
	to := min(len(data), from+1+r.IntN(8))
	part := slices.Clone(data[from:to])
	switch r.IntN(5) {
	case 0:
		part[r.IntN(len(part))] ^= 1 << r.IntN(8)
	case 1:
		part = nil
	case 2:
		part = slices.Repeat(part, 2+r.IntN(64))
	case 3:
		all := strangers()
		other := all[r.IntN(len(all))].data
		part = other[:1+r.IntN(min(len(other), 64))]
	case 4:
		for i := range part {
			part[i] = byte(r.Uint32())
		}
	}
	return splice(data, from, to, part)
}

// random returns a variant with random changes of a script.
func (s *script) random(r *rand.Rand, stream int) Variant {
	var senders []int
	for i, one := range s.steps {
		if one.sends && len(one.data) > 0 {
			senders = append(senders, i)
		}
	}
	if len(senders) == 0 { // what it sends is computed
		at := r.IntN(len(s.points))
		end := s.randomEnd(r)
		return Variant{Family: "random", What: fmt.Sprintf("the peer ends at step %d", s.points[at].step+1), Stream: stream, Edit: s.cut(s.points[at], end)}
	}
	all := changes(r)
	at, end, slow := senders[r.IntN(len(senders))], s.randomEnd(r), r.IntN(4) == 0 && !s.datagrams
	with := func(n int) Edit {
		return s.with(func() (steps []*yamlpos.Node) {
			for i, one := range s.steps {
				node, size := testfile.Clone(one.node), len(one.data)
				if i == at {
					data := applied(one.data, all[:n])
					node, size = send(data), len(data)
				}
				if slow && one.sends && !one.slowly && size <= maxSlow {
					testfile.SetField(yamlpos.Field(node, "send"), "every", scalar(interval))
				}
				steps = append(steps, node)
				if i == at && end != s.end {
					break
				}
			}
			return ended(steps, end)
		})
	}
	return Variant{
		Family: "random", What: fmt.Sprintf("what step %d sends is changed at random", at+1), Stream: stream,
		Edit: with(len(all)), Size: len(all), Shrunk: with,
	}
}

// randomEnd returns the end of the script, or another one.
func (s *script) randomEnd(r *rand.Rand) string {
	if s.datagrams || r.IntN(2) == 0 {
		return s.end
	}
	return []string{"", "close", "reset"}[r.IntN(3)]
}

func applied(data []byte, all []change) []byte {
	for _, c := range all {
		data = c.apply(data)
	}
	return data
}

// random returns a variant with random changes of a reply.
func (x *exchange) random(r *rand.Rand, stream int) Variant {
	all := changes(r)
	status := x.status
	if r.IntN(4) == 0 {
		status = []int{200, 201, 204, 206, 301, 304, 400, 401, 429, 500, 503, 599}[r.IntN(12)]
	}
	end := []string{"", "", "", "reset", "half-open"}[r.IntN(5)]
	with := func(n int) Edit {
		return at("http", x.index, func(item *yamlpos.Node) {
			reply := replyOf(item)
			if x.known {
				testfile.SetField(reply, "body", content(applied(x.body, all[:n])))
			}
			if status != x.status {
				testfile.SetField(reply, "status", number(status))
			}
			if end != "" {
				testfile.SetField(reply, "end", scalar(end))
			}
		})
	}
	return Variant{
		Family: "random", What: "the reply is changed at random", Stream: stream,
		Edit: with(len(all)), Size: len(all), Shrunk: with,
	}
}
