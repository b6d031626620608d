package config

import (
	"strconv"
	"testing"
)

// An endpoint must not be reached from its members.
func TestMembersAreInCycles(t *testing.T) {
	nodes := []node{
		{name: "shop", members: []Ref{{Name: "web"}, {Name: "targets/db-1"}}, dependsOn: []Ref{{Name: "net"}}},
		{name: "web", dependsOn: []Ref{{Name: "net"}}},
		{name: "net"},
	}
	if got := cycles(nodes); got != nil {
		t.Errorf("got %v, want none", got)
	}
	nodes[1].dependsOn = append(nodes[1].dependsOn, Ref{Name: "shop", Line: 7})
	got := cycles(nodes)
	if len(got) != 1 || len(got[0]) != 2 || got[0][0].Name != "web" || got[0][1] != nodes[1].dependsOn[1] {
		t.Errorf("got %v, want shop -> web -> shop", got)
	}
}

// FuzzCycles compares cycles with the naive reachability in a random graph: at most 16 nodes, and a reference
// for each two bytes.
func FuzzCycles(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 1, 1, 2, 2, 0, 3, 0})
	f.Add([]byte{0, 1, 16 + 1, 2, 1, 0, 4, 5, 16 + 5, 4, 0, 99})
	f.Fuzz(func(t *testing.T, edges []byte) {
		const size = 16
		nodes := make([]node, size)
		for i := range nodes {
			nodes[i].name = strconv.Itoa(i)
		}
		var leads [size][size]bool
		for i := 0; i+1 < len(edges) && i < 200; i += 2 {
			from, to := edges[i]%size, edges[i+1] // unknown from size on
			refs := &nodes[from].dependsOn
			if edges[i]&size != 0 {
				refs = &nodes[from].members
			}
			*refs = append(*refs, Ref{Name: strconv.Itoa(int(to)), Line: int(from)})
			if to < size {
				leads[from][to] = true
			}
		}
		direct := leads
		for k := range size {
			for i := range size {
				for j := range size {
					leads[i][j] = leads[i][j] || leads[i][k] && leads[k][j]
				}
			}
		}
		in := make(map[int]bool) // nodes of the cycles
		for _, c := range cycles(nodes) {
			from := index(t, c[len(c)-1])
			for _, r := range c {
				to := index(t, r)
				if r.Line != from || !direct[from][to] || in[to] {
					t.Fatalf("%v: %v is not the reference of %d, or %d is in two cycles", c, r, from, to)
				}
				in[to], from = true, to
			}
		}
		for i := range size {
			found := false
			for j := range in {
				found = found || leads[i][j] && leads[j][i]
			}
			if found != leads[i][i] {
				t.Errorf("node %d: a cycle was found: %t, want %t", i, found, leads[i][i])
			}
		}
	})
}

func index(t *testing.T, r Ref) int {
	i, err := strconv.Atoi(r.Name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}
