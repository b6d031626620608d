package abi

import (
	"strconv"
	"unsafe"

	"github.com/daeace23/prober/probe"
)

// Request is the document that request_read returns to a guest. It describes one attempt. Readers ignore
// unknown fields.
type Request struct {
	ABI       int
	Plugin    Plugin
	Probe     Probe
	Target    Target
	Pod       Pod
	Container Container
	Config    []byte // a JSON object; in a decoded request it refers to the document
	Host      Host
}

// Plugin describes the guest itself.
type Plugin struct{ Name, Version, Digest string }

// Probe describes the probe of the attempt.
type Probe struct {
	Kind             probe.Kind
	Attempt          int
	PeriodMs         int64
	TimeoutMs        int64
	FailureThreshold int
	LastResult       probe.Result
}

// Target is the target of the probe. IP is set if Host is an address.
type Target struct {
	Host string
	IP   string
	Port int
	Unix string
}

// Pod describes the pod of the probed container.
type Pod struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// Container describes the probed container.
type Container struct {
	Name, ID string
	Ports    []probe.Port
}

// Host is the program that calls the guest.
type Host struct {
	Version  string
	Features []string
}

func (r *Request) fields() []field {
	return []field{
		{"abi", &r.ABI},
		{"plugin", []field{{"name", &r.Plugin.Name}, {"version", &r.Plugin.Version}, {"digest", &r.Plugin.Digest}}},
		{"probe", r.Probe.fields()},
		{"target", []field{{"host", &r.Target.Host}, {"ip", &r.Target.IP}, {"port", &r.Target.Port}, {"unix", &r.Target.Unix}}},
		{"pod", []field{{"namespace", &r.Pod.Namespace}, {"name", &r.Pod.Name}, {"uid", &r.Pod.UID}, {"labels", &r.Pod.Labels}}},
		{"container", []field{{"name", &r.Container.Name}, {"id", &r.Container.ID}, {"ports", listOf(&r.Container.Ports, 0, portFields)}}},
		{"config", &r.Config},
		{"host", []field{{"version", &r.Host.Version}, {"features", &r.Host.Features}}},
	}
}

func (p *Probe) fields() []field {
	return []field{
		{"kind", &p.Kind}, {"attempt", &p.Attempt}, {"periodMs", &p.PeriodMs}, {"timeoutMs", &p.TimeoutMs},
		{"failureThreshold", &p.FailureThreshold}, {"lastResult", &p.LastResult},
	}
}

func portFields(p *probe.Port) []field {
	return []field{{"name", &p.Name}, {"port", &p.Number}, {"protocol", &p.Protocol}}
}

// AppendRequest appends r to b as JSON. An empty config becomes {}. It does not use the type field, because
// every attempt needs it and it so takes a third of the time.
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
	b = appendField(b, "namespace", r.Pod.Namespace)
	b = appendField(b, "name", r.Pod.Name)
	b = appendField(b, "uid", r.Pod.UID)
	b = appendMap(b, "labels", r.Pod.Labels)
	b = append(b, `},"container":{`...)
	b = appendField(b, "name", r.Container.Name)
	b = appendField(b, "id", r.Container.ID)
	b = appendList(b, "ports", len(r.Container.Ports), func(b []byte, i int) []byte {
		b = append(b, '{')
		b = appendField(b, "name", r.Container.Ports[i].Name)
		b = appendInt(b, "port", int64(r.Container.Ports[i].Number))
		b = appendField(b, "protocol", r.Container.Ports[i].Protocol)
		return append(b, '}')
	})
	b = append(b, `},"config":`...)
	if len(r.Config) == 0 {
		b = append(b, "{}"...)
	}
	b = append(b, r.Config...)
	b = append(b, `,"host":{`...)
	b = appendField(b, "version", r.Host.Version)
	b = appendStrings(b, "features", r.Host.Features)
	return append(b, `}}`...)
}

// DecodeRequest reads a request.
func DecodeRequest(data []byte) (r Request, err error) {
	err = r.Decode(append(make([]byte, 0, len(data)+Room), data...))
	return r, err
}

// Decode reads a request into r. r must be zero except for the capacity of its features. The caller must not
// change data afterwards, because the strings and the config of r refer to it: allocating each would cost a
// guest more than the rest. Decode is faster if data has [Room] bytes of spare capacity.
func (r *Request) Decode(data []byte) error {
	text := unsafe.String(unsafe.SliceData(data), len(data))
	if cap(data)-len(data) >= Room {
		end := data[len(data) : len(data)+Room]
		clear(end)
		if r.inOrder(data[:len(data)+Room], text) {
			return nil
		}
	}
	*r = Request{Host: Host{Features: r.Host.Features[:0]}}
	return r.decode(data, text)
}

func (r *Request) decode(data []byte, text string) error {
	s := scanner{data: data, text: text}
	return s.document(r.fields())
}

// FeatureOutput is the feature that permits a probe to show data that its target sends.
const FeatureOutput = "output"
