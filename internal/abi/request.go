package abi

import (
	"maps"
	"slices"
	"strconv"

	"github.com/daeace23/prober/probe"
)

// Request is the document that request_read hands to a guest: one attempt's
// question. Fields that a reader does not know are ignored.
type Request struct {
	ABI       int
	Plugin    Plugin
	Probe     Probe
	Target    Target
	Pod       Pod
	Container Container
	Config    []byte // a JSON object; of a decoded request, part of the document
	Host      Host
}

// Plugin describes the guest itself.
type Plugin struct{ Name, Version, Digest string }

// Probe is the probe whose attempt this is.
type Probe struct {
	Kind             probe.Kind
	Attempt          int
	PeriodMs         int64
	TimeoutMs        int64
	FailureThreshold int
	LastResult       probe.Result
}

// Target is where the probe goes. IP is set where Host is an address.
type Target struct {
	Host string
	IP   string
	Port int
	Unix string
}

// Pod is the pod whose container is probed.
type Pod struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// Container is the container that is probed.
type Container struct {
	Name, ID string
	Ports    []probe.Port
}

// Host is the program that asks.
type Host struct {
	Version  string
	Features []string
}

// AppendRequest appends r to b as JSON. An empty config becomes {}.
func AppendRequest(b []byte, r *Request) []byte {
	b = append(b, `{"abi":`...)
	b = strconv.AppendInt(b, int64(r.ABI), 10)
	b = append(b, `,"plugin":{`...)
	b = appendField(b, "name", r.Plugin.Name)
	b = appendField(b, "version", r.Plugin.Version)
	b = appendField(b, "digest", r.Plugin.Digest)
	b = append(b, `},"probe":{`...)
	b = appendField(b, "kind", r.Probe.Kind.String())
	b = appendInt(b, "attempt", int64(r.Probe.Attempt))
	b = appendInt(b, "periodMs", r.Probe.PeriodMs)
	b = appendInt(b, "timeoutMs", r.Probe.TimeoutMs)
	b = appendInt(b, "failureThreshold", int64(r.Probe.FailureThreshold))
	b = appendField(b, "lastResult", r.Probe.LastResult.String())
	b = append(b, `},"target":{`...)
	b = appendField(b, "host", r.Target.Host)
	b = appendField(b, "ip", r.Target.IP)
	b = appendInt(b, "port", int64(r.Target.Port))
	b = appendField(b, "unix", r.Target.Unix)
	b = append(b, `},"pod":{`...)
	b = appendPod(b, &r.Pod)
	b = append(b, `},"container":{`...)
	b = appendContainer(b, &r.Container)
	b = append(b, `},"config":`...)
	if len(r.Config) == 0 {
		b = append(b, "{}"...)
	} else {
		b = append(b, r.Config...)
	}
	b = append(b, `,"host":{`...)
	b = appendField(b, "version", r.Host.Version)
	b = appendList(b, "features", len(r.Host.Features), func(b []byte, i int) []byte {
		return AppendString(b, r.Host.Features[i])
	})
	return append(b, `}}`...)
}

func appendPod(b []byte, p *Pod) []byte {
	b = appendField(b, "namespace", p.Namespace)
	b = appendField(b, "name", p.Name)
	b = appendField(b, "uid", p.UID)
	if len(p.Labels) == 0 {
		return b
	}
	b = appendName(b, "labels")
	b = append(b, '{')
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		b = appendName(b, name)
		b = AppendString(b, p.Labels[name])
	}
	return append(b, '}')
}

func appendContainer(b []byte, c *Container) []byte {
	b = appendField(b, "name", c.Name)
	b = appendField(b, "id", c.ID)
	return appendList(b, "ports", len(c.Ports), func(b []byte, i int) []byte {
		b = append(b, '{')
		b = appendField(b, "name", c.Ports[i].Name)
		b = appendInt(b, "port", int64(c.Ports[i].Number))
		b = appendField(b, "protocol", c.Ports[i].Protocol)
		return append(b, '}')
	})
}

// appendName appends a field's name, and a comma where one is needed.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(AppendString(b, name), ':')
}

// appendField appends a text field, and nothing for an empty text.
func appendField(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return AppendString(appendName(b, name), text)
}

// appendInt appends a field with a number, and nothing for 0.
func appendInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), n, 10)
}

// appendList appends a field with n items, and nothing for none.
func appendList(b []byte, name string, n int, item func([]byte, int) []byte) []byte {
	if n == 0 {
		return b
	}
	b = append(appendName(b, name), '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	return append(b, ']')
}
