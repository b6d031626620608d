package network

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/probe"
)

// Place is the address in a probe's config. Each attempt fills in the missing parts.
type Place struct {
	Host   string       // the action's host
	Port   action.Port  // the action's port; the zero value means none
	Target probe.Target // the probe's target
}

// Endpoint is the address of one attempt.
type Endpoint struct {
	Host string
	Port int
	Unix string // path of a socket; if set, it is dialled instead
}

// Address returns host and port, joined.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Dialed returns the network and address to dial.
func (e Endpoint) Dialed() (network, address string) {
	if e.Unix != "" {
		return "unix", e.Unix
	}
	return "tcp", e.Address()
}

// literal returns the address if the host is an IP address, and the zero value otherwise.
func (e Endpoint) literal() netip.AddrPort {
	ip, err := netip.ParseAddr(e.Host)
	if err != nil || e.Port < 0 || e.Port > 65535 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, uint16(e.Port))
}

// Resolve returns the endpoint of the attempt req at p. A port that cannot be resolved is an error of the
// attempt, not of the config, because the container's ports may be declared later.
func (c *Connector) Resolve(p Place, req *probe.Request) (Endpoint, error) {
	e, err := p.endpoint(req, c.compat.Has(probe.CompatPortNumbers))
	if err == nil && e.Host == "" && e.Unix == "" { // would probe the agent's own host
		err = errors.New("the probe's target has no host")
	}
	if err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// Describe returns the address of the attempt req for messages, as [probe.Target.Address] does. If the
// name of a port is not declared, the name appears instead of the number.
func (p Place) Describe(req *probe.Request) string {
	e, err := p.endpoint(req, false)
	e.Host = cmp.Or(e.Host, probe.UnknownHost)
	switch {
	case e.Unix != "":
		return probe.Target{Unix: e.Unix}.Address()
	case err != nil && p.Port.Text() != "":
		return net.JoinHostPort(e.Host, p.Port.Text())
	default:
		return e.Address()
	}
}

// endpoint is like Resolve, but also returns the known parts with an error. numbers says whether
// [probe.CompatPortNumbers] is set.
func (p Place) endpoint(req *probe.Request, numbers bool) (Endpoint, error) {
	e := Endpoint{
		Host: cmp.Or(p.Host, req.Target.Host, p.Target.Host, req.PodIP),
		Unix: cmp.Or(req.Target.Unix, p.Target.Unix),
	}
	var err error
	if p.Port != (action.Port{}) {
		e.Port, err = resolvePort(p.Port, req.Container, numbers)
	} else if e.Port = cmp.Or(req.Target.Port, p.Target.Port); e.Port != 0 || e.Unix == "" {
		err = checkPort(e.Port)
	}
	return e, err
}

// resolvePort returns the number of port. A name is resolved with the ports of c. If numbers is set, a
// name may also be a decimal number. A number outside of 1 to 65535 is returned together with an error,
// as in the kubelet.
func resolvePort(port action.Port, c *probe.Container, numbers bool) (int, error) {
	number, ok := port.Number()
	if !ok {
		number, ok = findPort(c, port.Text())
	}
	switch {
	case !ok && numbers:
		var err error
		if number, err = strconv.Atoi(port.Text()); err != nil {
			return number, err
		}
	case !ok:
		return 0, noPort(c, port.Text())
	}
	return number, checkPort(number)
}

func checkPort(number int) error {
	if number < 1 || number > 65535 {
		return fmt.Errorf("invalid port number: %d", number)
	}
	return nil
}

// maxPorts is the maximum number of ports that an error names.
const maxPorts = 8

// noPort returns the error for a name that no port of c has. It begins like the kubelet's.
func noPort(c *probe.Container, name string) error {
	if c == nil {
		return fmt.Errorf("port %.80q not found: must be a number, since there is no container with ports", name)
	}
	return fmt.Errorf("port %.80q not found: container %.80q has %s", name, c.Name, portsOf(c))
}

// portsOf describes the named ports of c.
func portsOf(c *probe.Container) string {
	var named []string
	for _, p := range c.Ports {
		if p.Name != "" {
			named = append(named, fmt.Sprintf("%.80s (%d)", p.Name, p.Number))
		}
	}
	switch more := len(named) - maxPorts; {
	case len(c.Ports) == 0:
		return "no ports"
	case len(named) == 0:
		return "ports without names"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(named[:maxPorts], ", "), more)
	default:
		return strings.Join(named, ", ")
	}
}

// findPort returns the number of the port of c called name. As in the kubelet, the protocol does not matter.
func findPort(c *probe.Container, name string) (number int, ok bool) {
	if c == nil {
		return 0, false
	}
	for _, p := range c.Ports {
		if p.Name == name {
			return p.Number, true
		}
	}
	return 0, false
}
