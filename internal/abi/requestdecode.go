package abi

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/daeace23/prober/probe"
)

// DecodeRequest reads a request.
func DecodeRequest(data []byte) (r Request, err error) {
	err = r.Decode(append(make([]byte, 0, len(data)+Room), data...))
	return r, err
}

// Decode reads a request into r, which is zero but for what its features have room for.
// data belongs to r from then on: the texts and the config are parts of it, since to make
// one each would cost a guest more than all the rest. It is read with fewer branches where
// it has [Room].
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
	d := decoder{scanner{data: data, text: text}}
	err := d.object(func(name string) (err error) {
		switch name {
		case "abi":
			err = d.readInt(&r.ABI)
		case "plugin":
			err = d.plugin(&r.Plugin)
		case "probe":
			err = d.probe(&r.Probe)
		case "target":
			err = d.target(&r.Target)
		case "pod":
			err = d.pod(&r.Pod)
		case "container":
			err = d.container(&r.Container)
		case "config":
			r.Config, err = d.raw()
		case "host":
			err = d.host(&r.Host)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
	if err == nil {
		err = d.end()
	}
	return err
}

// named is small enough to be inlined.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return inField(name, err)
}

func inField(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// decoder reads the parts of the two documents.
type decoder struct{ scanner }

func (d *decoder) readInt(to *int) error {
	n, err := d.int()
	*to = int(n)
	return err
}

func (d *decoder) readInt64(to *int64) (err error) {
	*to, err = d.int()
	return err
}

func (d *decoder) readString(to *string) (err error) {
	*to, err = d.str()
	return err
}

// textFields are the fields of an object that are texts. There are a few of them: a map
// would cost a guest more than to look at each.
type textFields []struct {
	name string
	to   *string
}

// fields reads an object whose fields are texts, but for those that other takes;
// other answers false for a field that is not its own.
func (d *decoder) fields(texts textFields, other func(name string) (bool, error)) error {
	return d.object(func(name string) error {
		for i := range texts {
			if texts[i].name == name {
				return named(name, d.readString(texts[i].to))
			}
		}
		if other != nil {
			if mine, err := other(name); mine || err != nil {
				return named(name, err)
			}
		}
		return named(name, d.unknown())
	})
}

// unknown passes over the value of a field that the contract does not know.
func (d *decoder) unknown() error {
	if d.strict {
		return errors.New("the field is unknown")
	}
	return d.skip()
}

func (d *decoder) plugin(p *Plugin) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "name":
			p.Name, err = d.str()
		case "version":
			p.Version, err = d.str()
		case "digest":
			p.Digest, err = d.str()
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}

func (d *decoder) probe(p *Probe) error {
	return d.object(func(name string) (err error) {
		var text string
		switch name {
		case "kind":
			if err = d.readString(&text); err == nil {
				p.Kind, err = probe.ParseKind(text)
			}
		case "lastResult":
			if err = d.readString(&text); err == nil {
				err = p.LastResult.UnmarshalText([]byte(text))
			}
		case "attempt":
			err = d.readInt(&p.Attempt)
		case "periodMs":
			err = d.readInt64(&p.PeriodMs)
		case "timeoutMs":
			err = d.readInt64(&p.TimeoutMs)
		case "failureThreshold":
			err = d.readInt(&p.FailureThreshold)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}

func (d *decoder) target(t *Target) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "host":
			t.Host, err = d.str()
		case "ip":
			t.IP, err = d.str()
		case "unix":
			t.Unix, err = d.str()
		case "port":
			err = d.readInt(&t.Port)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}

func (d *decoder) pod(p *Pod) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "namespace":
			p.Namespace, err = d.str()
		case "name":
			p.Name, err = d.str()
		case "uid":
			p.UID, err = d.str()
		case "labels":
			err = d.labels(&p.Labels)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}

func (d *decoder) labels(to *map[string]string) error {
	return d.object(func(name string) error {
		value, err := d.str()
		if *to == nil {
			*to = make(map[string]string)
		}
		(*to)[name] = value
		return named(name, err)
	})
}

func (d *decoder) container(c *Container) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "name":
			c.Name, err = d.str()
		case "id":
			c.ID, err = d.str()
		case "ports":
			err = d.array(func(int) error {
				p, err := d.port()
				c.Ports = append(c.Ports, p)
				return err
			})
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}

func (d *decoder) port() (p probe.Port, err error) {
	err = d.object(func(name string) (err error) {
		switch name {
		case "name":
			p.Name, err = d.str()
		case "protocol":
			p.Protocol, err = d.str()
		case "port":
			err = d.readInt(&p.Number)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
	return p, err
}

func (d *decoder) host(h *Host) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "version":
			h.Version, err = d.str()
		case "features":
			h.Features = h.Features[:0]
			err = d.texts(&h.Features)
		default:
			err = d.skip()
		}
		return named(name, err)
	})
}
