package builtin

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/probe"
)

// place is what a probe's config says of where it goes; what it leaves open is
// filled in at each attempt.
type place struct {
	host   string             // of the action
	port   intstr.IntOrString // of the action; the zero value when it has none
	target probe.Target       // of the probe
}

// endpoint is where one attempt goes.
type endpoint struct {
	host string
	port int
	unix string // path of a socket to dial instead
}

// address returns host and port as one word.
func (e endpoint) address() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// dialed returns what is to be dialled.
func (e endpoint) dialed() (network, address string) {
	if e.unix != "" {
		return "unix", e.unix
	}
	return "tcp", e.address()
}

// resolve returns where the attempt req goes. A port that cannot be resolved is an
// error of the attempt: the container's ports may be declared later.
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
	port, err := ResolvePort(p.port, req.Container)
	if err != nil {
		return endpoint{}, err
	}
	e.port = port
	return e, nil
}

// ResolvePort returns the number that port stands for: itself, the number of the
// port of c that has its name, or the number that it spells. What is no number from
// 1 to 65535 comes back beside an error, as the kubelet has it.
func ResolvePort(port intstr.IntOrString, c *probe.Container) (int, error) {
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
