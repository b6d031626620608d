package guest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/echo"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func icmpFuncs() map[string]hostFunc {
	return map[string]hostFunc{"echo": i32(icmpEcho), "read": i32(icmpRead)}
}

const maxEchoRequest = 2 << 10 // bytes of the request document

// echoes has the replies that the guest of a call has not read, and the last request's address.
type echoes struct {
	docs [][]byte // by handle; nil after it was read
	open int

	asked struct { // the request for which to was found; the next one to the same host needs no look-up
		host  string
		route abi.Route
	}
	to netip.Addr // the zero Addr before the first request
}

func icmpEcho(c *Call, mem api.Memory, a args) int32 {
	switch {
	case c.inInitialize || c.offline:
		return c.fail(abi.EPERM, "the network can be reached from probe only")
	case uint32(a[1]) > maxEchoRequest:
		return c.fail(abi.EMSGSIZE, "icmp: a request of %d bytes", uint32(a[1]))
	}
	doc, ok := a.span(mem, 0)
	if !ok {
		return c.badPointer()
	}
	r, err := abi.Decode[abi.EchoRequest](doc)
	if err == nil {
		err = checkEcho(&r)
	}
	if err != nil {
		return c.fail(abi.EINVAL, "icmp: request: %v", err)
	}
	start := c.host.Clock.Now()
	where := r.Host
	if where == "" {
		where = c.req.Target.Host
	}
	var reply abi.EchoReply
	c.idle(waiting{call: "echo", where: where, stage: stageLookup}, func(ctx context.Context) { reply, err = c.echo(ctx, &r, a.i32(2)) })
	c.clearFault()
	if err != nil {
		return c.dialError("echo", where, start, err)
	}
	c.Trace(probe.TraceEvent{
		Type: probe.TraceCall, Name: "echo", Duration: c.host.since(start),
		Detail: fmt.Sprintf("%s: %d bytes, hop limit %d", reply.Remote, reply.Payload, reply.HopLimit),
	})
	return c.icmp.add(abi.Append(nil, &reply))
}

// checkEcho validates the numbers of a request, and sets the default payload size.
func checkEcho(r *abi.EchoRequest) error {
	switch {
	case r.Payload < 0 || r.Payload > abi.MaxEcho:
		return fmt.Errorf("payload: must be 1 to %d", abi.MaxEcho)
	case r.HopLimit < 0 || r.HopLimit > 255:
		return errors.New("hopLimit: must be 1 to 255")
	case r.Payload == 0:
		r.Payload = abi.DefaultEcho
	}
	return nil
}

// echo sends a request if the grants allow it, and returns the reply.
func (c *Call) echo(ctx context.Context, r *abi.EchoRequest, timeoutMs int32) (reply abi.EchoReply, err error) {
	if err := c.countEcho(r.Payload); err != nil {
		return reply, err
	}
	if timeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = c.host.Clock.WithTimeout(ctx, time.Duration(timeoutMs)*time.Millisecond)
		defer cancel()
	}
	route, err := egress.NewRoute(r.Route)
	if err != nil {
		return reply, fmt.Errorf("icmp: %w", err)
	}
	start := c.host.Clock.Now()
	to, err := c.echoTo(ctx, r, route)
	if err != nil {
		return reply, err
	}
	reply.DNS = c.host.since(start)
	c.stage(ctx, stageEcho, to.String(), nil)
	got, err := c.host.Echo(ctx, echo.Request{
		Addr: to, Source: route.Source(), Payload: r.Payload, HopLimit: r.HopLimit, DontFragment: r.DontFragment,
	})
	if err != nil {
		return reply, fmt.Errorf("icmp %s: %w", to, err)
	}
	reply.Remote, reply.Payload, reply.HopLimit, reply.Setup, reply.RTT = to.String(), got.Payload, got.HopLimit, got.Setup, got.RTT
	if got.Local.IsValid() {
		reply.Local = got.Local.String()
	}
	return reply, nil
}

// echoTo returns the first address that the grants and the route allow. For consecutive requests to one
// host, it looks up and checks the address once.
func (c *Call) echoTo(ctx context.Context, r *abi.EchoRequest, route egress.Route) (netip.Addr, error) {
	n := &c.icmp
	if n.to.IsValid() && n.asked.host == r.Host && n.asked.route == r.Route {
		return n.to, nil
	}
	to, err := c.egress(plugin.CapabilityICMP).Echo(ctx, r.Host)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := route.Choose(to)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("icmp %.200s: %w", to.Host, err)
	}
	at, err := netip.ParseAddrPort(addrs[0])
	if err != nil {
		return netip.Addr{}, err
	}
	n.to, n.asked.host, n.asked.route = at.Addr(), r.Host, r.Route
	return n.to, nil
}

// echoHeader is the length of the header of an echo request.
const echoHeader = 8

// countEcho counts a request as a dial, and its bytes as written. It returns an error if that exceeds a
// limit of the call.
func (c *Call) countEcho(payload int) error {
	n, size := &c.net, payload+echoHeader
	if c.icmp.open >= c.plugin.Limits.Handles {
		return &limit{plugin.LimitHandles, abi.EMFILE, fmt.Sprintf("more than %d replies that were not read", c.icmp.open)}
	}
	if most := c.plugin.Limits.NetWrite; size > most-n.written {
		return &limit{plugin.LimitNetWrite, abi.EDQUOT, fmt.Sprintf("more than %d bytes written in one run", most)}
	}
	if err := c.countDial(); err != nil {
		return err
	}
	n.written += size
	return nil
}

// add returns a handle for the document of a reply.
func (n *echoes) add(doc []byte) int32 {
	n.open++
	for i := range n.docs {
		if n.docs[i] == nil {
			n.docs[i] = doc
			return int32(i) + 1
		}
	}
	n.docs = append(n.docs, doc)
	return int32(len(n.docs))
}

func icmpRead(c *Call, mem api.Memory, a args) int32 {
	docs, i := c.icmp.docs, int(a.i32(0))-1
	if i < 0 || i >= len(docs) || docs[i] == nil {
		return c.fail(abi.EBADF, "there is no handle %d", a.i32(0))
	}
	size := len(docs[i])
	n := c.put(mem, a, 1, docs[i])
	if n == int32(size) && size <= int(uint32(a[2])) {
		docs[i] = nil
		c.icmp.open--
	}
	return n
}
