package builtin

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/probe"
)

// place is the address in a probe's config. Each attempt fills in what is not set.
type place struct {
	host   string             // of the action
	port   intstr.IntOrString // of the action; the zero value when it has none
	target probe.Target       // of the probe
}

// endpoint is the address of one attempt.
type endpoint struct {
	host string
	port int
	unix string // path of a socket to dial instead
}

// address returns host and port, joined.
func (e endpoint) address() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// dialed returns the network and address to dial.
func (e endpoint) dialed() (network, address string) {
	if e.unix != "" {
		return "unix", e.unix
	}
	return "tcp", e.address()
}

// resolve returns the address of the attempt req. A port that cannot be resolved is an error of
// the attempt, since the container's ports may be declared later.
func (p place) resolve(req *probe.Request) (endpoint, error) {
	e := endpoint{
		host: cmp.Or(p.host, req.Target.Host, p.target.Host, req.PodIP),
		unix: cmp.Or(req.Target.Unix, p.target.Unix),
	}
	if p.port == (intstr.IntOrString{}) {
		p.port = intstr.FromInt(cmp.Or(req.Target.Port, p.target.Port))
	}
	if e.unix != "" && p.port == (intstr.IntOrString{}) {
		return e, nil
	}
	port, err := resolvePort(p.port, req.Container)
	if err != nil {
		return endpoint{}, err
	}
	e.port = port
	return e, nil
}

// resolvePort returns the number of port: port itself, the number of the port of c with that
// name, or port as a decimal number. A number that is not from 1 to 65535 is returned with an
// error, as in the kubelet.
func resolvePort(port intstr.IntOrString, c *probe.Container) (int, error) {
	var number int
	switch port.Type {
	case intstr.Int:
		number = port.IntValue()
	case intstr.String:
		var ok bool
		if number, ok = findPort(c, port.StrVal); !ok {
			var err error
			if number, err = strconv.Atoi(port.StrVal); err != nil {
				return number, err
			}
		}
	default:
		return -1, fmt.Errorf("intOrString had no kind: %+v", port)
	}
	if number < 1 || number > 65535 {
		return number, fmt.Errorf("invalid port number: %d", number)
	}
	return number, nil
}

// findPort returns the number of the port of c called name. The protocol does not
// matter, as in the kubelet.
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
