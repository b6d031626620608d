package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/dnswire"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func dnsFuncs() map[string]hostFunc {
	return map[string]hostFunc{"lookup": i32(dnsLookup), "read": i32(dnsRead)}
}

const maxDNSRequest = 2 << 10 // bytes of the request document

// lookups has the look-ups of one call and their connections.
type lookups struct {
	net   network
	begun int       // number of look-ups, including those that failed at once
	asked []*lookup // by handle; nil after the answer was read
	buf   []byte    // holds one message
}

func (n *lookups) get(handle int32) *lookup {
	if handle < 1 || int(handle) > len(n.asked) {
		return nil
	}
	return n.asked[handle-1]
}

// dnsLookup sends the question to the first server. The look-up continues when the guest waits for
// the answer.
func dnsLookup(c *Call, mem api.Memory, a args) int32 {
	switch {
	case c.inInitialize || c.offline:
		return c.fail(abi.EPERM, "the network can be reached from probe only")
	case uint32(a[1]) > maxDNSRequest:
		return c.fail(abi.EMSGSIZE, "dns: a request of %d bytes", uint32(a[1]))
	case c.dns.begun >= c.plugin.Limits.Lookups:
		c.Hit(plugin.LimitLookups)
		return c.fail(abi.EDQUOT, "dns: more than %d look-ups in one run", c.dns.begun)
	}
	doc, ok := a.span(mem, 0)
	if !ok {
		return c.badPointer()
	}
	r, err := abi.Decode[abi.DNSRequest](doc)
	if err != nil {
		return c.fail(abi.EINVAL, "dns: request: %v", err)
	}
	c.dns.begun++
	c.outlived = true
	l, err := c.newLookup(r)
	if err != nil {
		return c.dialError("dns", l.text, l.began, err)
	}
	if end := l.began.Add(time.Duration(a.i32(2)) * time.Millisecond); a.i32(2) > 0 && (l.until.IsZero() || end.Before(l.until)) {
		l.until = end
	}
	c.idle(waiting{call: "dns", where: l.text, stage: stageLookup}, func(ctx context.Context) {
		if l.servers, err = c.dnsServers(ctx, l, r.Server); err == nil {
			l.advance(ctx)
		}
	})
	if c.dialFault = ""; err != nil {
		return c.dialError("dns", l.text, l.began, err)
	}
	c.dns.asked = append(c.dns.asked, l)
	return int32(len(c.dns.asked))
}

// newLookup returns a look-up, or an error if the grants do not allow its name.
func (c *Call) newLookup(r abi.DNSRequest) (*lookup, error) {
	l := &lookup{call: c, text: r.Name, began: c.host.Clock.Now()}
	l.until, _ = c.ctx.Deadline()
	var id [2]byte
	if _, err := io.ReadFull(c.host.Rand, id[:]); err != nil {
		return l, fmt.Errorf("dns: %w", err)
	}
	var err error
	if l.question, err = newQuestion(r.Name, r.Type, binary.BigEndian.Uint16(id[:])); err != nil {
		return l, err
	}
	l.text = l.question.String()
	return l, c.plugin.Permissions.CheckLookUp(l.question.Name())
}

// newQuestion returns a question. Its name must be the root or a name that grants can match.
func newQuestion(name, typ string, id uint16) (dnswire.Question, error) {
	q, err := dnswire.NewQuestion(name, typ, id)
	if isRoot := q.Name() == ""; err == nil && !isRoot && !plugin.ValidHost(q.Name()) {
		err = fmt.Errorf("%.200q is not a name", name)
	}
	if err != nil {
		return q, fmt.Errorf("dns: %w", err)
	}
	return q, nil
}

// dnsServers returns the servers of a look-up: the host's, or the named one, if the grants allow
// dialing it over UDP. Long answers may then come over TCP, unless that is denied.
func (c *Call) dnsServers(ctx context.Context, l *lookup, named string) ([]*dnsServer, error) {
	if named == "" {
		addrs := c.host.DNSServers
		if addrs == nil {
			addrs = c.host.nameservers.addresses()
		}
		if len(addrs) == 0 {
			return nil, errors.New("dns: there is no nameserver")
		}
		return l.serversAt(addrs, ""), nil
	}
	if named == "target" {
		named = ""
	} else if _, _, err := net.SplitHostPort(named); err != nil {
		named = net.JoinHostPort(strings.Trim(named, "[]"), "53")
	}
	if !l.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = c.host.Clock.WithTimeout(ctx, l.until.Sub(l.began))
		defer cancel()
	}
	to, err := c.egress(plugin.CapabilityDNS).Dial(ctx, "udp", named, "")
	if err != nil {
		return nil, err
	}
	return l.serversAt(to.Addrs, to.Host), nil
}

func dnsRead(c *Call, mem api.Memory, a args) int32 {
	l := c.dns.get(a.i32(0))
	if l == nil {
		return c.fail(abi.EBADF, "there is no handle %d", a.i32(0))
	}
	if !l.done() {
		c.idle(waiting{call: "dns", where: l.text, stage: stageLookup, addr: l.serverList()}, func(ctx context.Context) { c.awaitLookup(ctx, l, a.i32(3)) })
	}
	switch {
	case l.err != nil:
		c.clearFault()
		errno := c.dialError("dns", l.text, l.began, l.err)
		if c.dialFault != probe.ReasonDenied && !c.dialFault.OfHost() {
			c.dialFault = probe.ReasonDNS
		}
		return errno
	case l.doc == nil && c.ctx.Err() != nil:
		return c.fail(abi.ETIMEDOUT, "dns: %s: timed out", l.text)
	case l.doc == nil:
		return abi.EAGAIN.Code()
	}
	c.clearFault()
	if l.rcode != 0 {
		c.dialFault = probe.ReasonDNS
	}
	n := c.put(mem, a, 1, l.doc)
	if n == int32(len(l.doc)) && len(l.doc) <= int(uint32(a[2])) {
		c.dns.asked[a.i32(0)-1] = nil
	}
	return n
}

// awaitLookup advances all look-ups until l is done, the guest's timeout passes or the call ends.
func (c *Call) awaitLookup(ctx context.Context, l *lookup, timeoutMs int32) {
	clock, start := c.host.Clock, c.host.Clock.Now()
	for {
		due := time.Time{}
		for _, other := range c.dns.asked {
			if other == nil {
				continue
			}
			if other.advance(ctx); !other.done() && (due.IsZero() || other.due().Before(due)) {
				due = other.due()
			}
		}
		now := clock.Now()
		rest := due.Sub(now)
		if timeoutMs > 0 {
			rest = min(rest, start.Add(time.Duration(timeoutMs)*time.Millisecond).Sub(now))
		}
		if l.done() || ctx.Err() != nil || timeoutMs == abi.NonBlocking || rest <= 0 && timeoutMs > 0 {
			return
		}
		clock.Wait(ctx, c.dns.net.wake, max(0, rest))
	}
}
