package testfile

import (
	"net/netip"
	"slices"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/hostfile"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/dns"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/icmp"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/socket"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/web"
)

// protocols are the kinds of peers that a case may have. A dial asks the protocols from the first to
// the last. record asks them from the last to the first, since sockets accept every connection.
// Append a new kind.
var protocols = []peer.Protocol{
	socket.Protocol{},
	web.Protocol{},
	dns.Protocol{},
	icmp.Protocol{},
}

// maxKept is the maximum size of a probe's keys and values, in bytes.
const maxKept = 64 << 10

// decodeHost reads the field host.
func decodeHost(r *field.Reader, n *yamlpos.Node, path string, c *Case) {
	known := yamlpos.Fields{
		"kv":    func(n *yamlpos.Node, path string) { decodeKV(r, n, path, c) },
		"files": func(n *yamlpos.Node, path string) { c.Files = hostfile.Decode(r, n, path) },
		"names": func(n *yamlpos.Node, path string) { decodeNames(r, n, path, c) },
	}
	for i, p := range protocols {
		known[p.Field()] = func(n *yamlpos.Node, path string) { c.Peers[i] = p.Decode(r, n, path) }
	}
	r.Mapping(n, path, known)
}

func decodeKV(r *field.Reader, n *yamlpos.Node, path string, c *Case) {
	c.KV = make(map[string][]byte)
	size := 0
	r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
		text, _ := r.Text(value, at)
		if size += len(key.Value) + len(text); size > maxKept {
			r.Errorf(key, at, "the probe would keep %d bytes, the limit is %d", size, maxKept)
		}
		c.KV[key.Value] = []byte(text)
	})
}

func decodeNames(r *field.Reader, n *yamlpos.Node, path string, c *Case) {
	r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
		c.Names[key.Value] = nil
		r.Items(value, at, func(n *yamlpos.Node, path string) {
			var addr netip.Addr
			field.Parsed(r, &addr, netip.ParseAddr)(n, path)
			c.Names[key.Value] = append(c.Names[key.Value], addr)
		})
	})
}

// noPeers returns the peers of a case that has none.
func noPeers() []peer.Peers { return everywhere("") }

// everywhere returns a peer of each protocol at every address, or no peers for the behaviour "".
// The peer of sockets takes every dial, so it comes last.
func everywhere(b peer.Behaviour) []peer.Peers {
	all := make([]peer.Peers, len(protocols))
	for i, p := range protocols {
		all[i] = p.Everywhere(b)
	}
	if b != "" {
		slices.Reverse(all)
	}
	return all
}

// Everywhere returns a copy of the case in whose network every peer shows b.
func (c *Case) Everywhere(b peer.Behaviour) *Case {
	with := *c
	with.Peers = everywhere(b)
	return &with
}

// record returns the peers of a recorded attempt. Each protocol takes the connections that it
// recognises, from the last protocol to the first: sockets take the rest.
func record(a *capture.Attempt, conns []*capture.Summary) []peer.Peers {
	all := make([]peer.Peers, len(protocols))
	for i, p := range slices.Backward(protocols) {
		all[i], conns = p.Record(a, conns)
	}
	return all
}

// hostNode returns the field host of a session.
func hostNode(c *Case) (*yamlpos.Node, error) {
	host := &yamlpos.Node{Kind: yamlpos.Mapping}
	add := func(name string, value any) error {
		key := &yamlpos.Node{}
		key.SetString(name)
		node, ok := value.(*yamlpos.Node)
		var err error
		if !ok {
			node = &yamlpos.Node{}
			err = node.Encode(value)
		}
		host.Content = append(host.Content, key, node)
		return err
	}
	if len(c.Names) > 0 {
		names := make(map[string]field.List)
		for name, addrs := range c.Names {
			names[name] = nil
			for _, addr := range addrs {
				names[name] = append(names[name], addr.String())
			}
		}
		if err := add("names", names); err != nil {
			return nil, err
		}
	}
	for i, p := range protocols {
		doc, err := c.Peers[i].Doc()
		if err == nil && doc != nil {
			err = add(p.Field(), doc)
		}
		if err != nil {
			return nil, err
		}
	}
	return host, nil
}
