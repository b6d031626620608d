package incidents

// attach adds each probe without a group to the group with most of the probes on which it depends, if there is
// one.
func (f *finder) attach() {
	d := dependencies{finder: f, named: make(map[string][]*failure), ofName: make(map[string]int), ofProbe: make(map[*failure]int)}
	waiting := false
	for _, p := range f.failing {
		waiting = waiting || p.group < 0
		if p.Group != "" {
			d.named[p.Group] = append(d.named[p.Group], p)
		}
	}
	if !waiting {
		return
	}
	for _, p := range f.failing {
		if p.group < 0 {
			d.groupOfProbe(p)
		}
	}
	for _, p := range f.failing {
		if g, ok := d.ofProbe[p]; ok && g >= 0 {
			p.group = g
			f.groups[g].behind = append(f.groups[g].behind, p)
		}
	}
}

// dependencies finds the groups of probes that depend on others.
type dependencies struct {
	*finder
	named   map[string][]*failure // by Group
	ofName  map[string]int        // results of groupOfName
	ofProbe map[*failure]int      // results of groupOfProbe
}

// groupOfProbe returns the group of p, or the group that it joins; -1 for none.
func (d *dependencies) groupOfProbe(p *failure) int {
	if p.group >= 0 {
		return p.group
	}
	if g, ok := d.ofProbe[p]; ok {
		return g
	}
	d.ofProbe[p] = -1 // ends cycles
	votes := make(map[int]int)
	for _, key := range p.Behind {
		if on := d.byKey[key]; on != nil {
			votes[d.groupOfProbe(on)]++
		}
	}
	best := d.most(votes)
	for _, name := range p.DependsOn {
		if best >= 0 {
			break
		}
		best = d.groupOfName(name)
	}
	d.ofProbe[p] = best
	return best
}

// groupOfName returns the group with most of the failing probes of a Group; -1 for none.
func (d *dependencies) groupOfName(name string) int {
	if g, ok := d.ofName[name]; ok {
		return g
	}
	d.ofName[name] = -1 // ends cycles
	votes := make(map[int]int)
	for _, p := range d.named[name] {
		votes[d.groupOfProbe(p)]++
	}
	d.ofName[name] = d.most(votes)
	return d.ofName[name]
}

// most returns the group with the most votes, and of equal ones the earliest; -1 for none. Votes for -1 do not
// count.
func (d *dependencies) most(votes map[int]int) int {
	best := -1
	delete(votes, -1)
	for g, n := range votes {
		if best < 0 || n > votes[best] || n == votes[best] && d.groups[g].members[0].index < d.groups[best].members[0].index {
			best = g
		}
	}
	return best
}
