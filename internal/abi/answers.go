package abi

import (
	"math"
	"time"
)

// DecodeHTTPHead reads what head tells.
func DecodeHTTPHead(doc []byte) (HTTPHead, error) {
	var h HTTPHead
	texts := textFields{{"proto", &h.Proto}, {"url", &h.URL}, {"remote", &h.Remote}}
	d := decoder{scanner{data: doc}}
	err := d.fields(texts, func(name string) (mine bool, err error) {
		switch name {
		case "status":
			err = d.readInt(&h.Status)
		case "redirects":
			err = d.readInt(&h.Redirects)
		case "headers":
			err = d.labels(&h.Headers)
		case "timings":
			err = d.timings(map[string]*time.Duration{
				"dns": &h.DNS, "connect": &h.Connect, "tls": &h.TLS, "firstByte": &h.FirstByte,
			})
		case "tls":
			h.Peer, err = d.tlsInfo()
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil {
		err = d.end()
	}
	return h, err
}

// DecodeConnInfo reads what info tells.
func DecodeConnInfo(doc []byte) (ConnInfo, error) {
	var i ConnInfo
	texts := textFields{{"network", &i.Network}, {"local", &i.Local}, {"remote", &i.Remote}}
	d := decoder{scanner{data: doc}}
	err := d.fields(texts, func(name string) (mine bool, err error) {
		switch name {
		case "timings":
			err = d.timings(map[string]*time.Duration{"dns": &i.DNS, "connect": &i.Connect, "tls": &i.TLS})
		case "tls":
			i.Peer, err = d.tlsInfo()
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil {
		err = d.end()
	}
	return i, err
}

// DecodeDNSAnswer reads what a look-up found.
func DecodeDNSAnswer(doc []byte) (DNSAnswer, error) {
	var a DNSAnswer
	d := decoder{scanner{data: doc}}
	err := d.fields(textFields{{"rcode", &a.RCode}, {"server", &a.Server}}, func(name string) (mine bool, err error) {
		switch name {
		case "seconds":
			err = d.seconds(&a.Took)
		case "answers":
			err = d.array(func(int) error {
				r, err := d.record()
				a.Answers = append(a.Answers, r)
				return err
			})
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil {
		err = d.end()
	}
	return a, err
}

func (d *decoder) record() (DNSRecord, error) {
	var r DNSRecord
	err := d.fields(textFields{{"name", &r.Name}, {"type", &r.Type}, {"data", &r.Data}}, func(name string) (bool, error) {
		if name != "ttl" {
			return false, nil
		}
		n, err := d.int()
		r.TTL = uint32(min(max(n, 0), math.MaxUint32))
		return true, err
	})
	return r, err
}

func (d *decoder) tlsInfo() (*TLSInfo, error) {
	var i TLSInfo
	texts := textFields{{"version", &i.Version}, {"cipher", &i.Cipher}, {"alpn", &i.ALPN}, {"serverName", &i.ServerName}}
	err := d.fields(texts, func(name string) (bool, error) {
		if name != "peer" {
			return false, nil
		}
		return true, d.array(func(int) error {
			c, err := d.certificate()
			i.Certificates = append(i.Certificates, c)
			return err
		})
	})
	return &i, err
}

func (d *decoder) timings(to map[string]*time.Duration) error {
	return d.object(func(name string) error {
		if to, ok := to[name]; ok {
			return named(name, d.seconds(to))
		}
		return d.skip()
	})
}

func (d *decoder) seconds(to *time.Duration) error {
	f, err := d.float()
	*to = time.Duration(math.Round(f * float64(time.Second)))
	return err
}
