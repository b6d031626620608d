package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// The types of records and the codes of answers, by their names.
var (
	recordTypes = map[string]dnsmessage.Type{
		"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "MX": dnsmessage.TypeMX, "NS": dnsmessage.TypeNS,
		"PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA, "SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
	}
	rcodes = map[string]dnsmessage.RCode{
		"NOERROR": dnsmessage.RCodeSuccess, "FORMERR": dnsmessage.RCodeFormatError, "SERVFAIL": dnsmessage.RCodeServerFailure,
		"NXDOMAIN": dnsmessage.RCodeNameError, "NOTIMP": dnsmessage.RCodeNotImplemented, "REFUSED": dnsmessage.RCodeRefused,
	}
)

// nameOf returns the name of a type or code in known.
func nameOf[T interface {
	comparable
	String() string
}](known map[string]T, value T) string {
	for name, v := range known {
		if v == value {
			return name
		}
	}
	return value.String()
}

func typeName(t dnsmessage.Type) string { return nameOf(recordTypes, t) }

// domain returns a name, which is absolute with or without a dot at its end.
func domain(text string) (dnsmessage.Name, error) {
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return dnsmessage.NewName(text)
}

const maxString = 255 // bytes of one string of a TXT record

// resource reads the data of a record in the form of a zone file.
func resource(t dnsmessage.Type, data string) (dnsmessage.ResourceBody, error) {
	fields := strings.Fields(data)
	want := map[dnsmessage.Type]int{dnsmessage.TypeMX: 2, dnsmessage.TypeSRV: 4, dnsmessage.TypeSOA: 7}[t]
	if want > 0 && len(fields) != want {
		return nil, fmt.Errorf("%.80q must have %d fields, as in a zone file", data, want)
	}
	switch t {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		addr, err := netip.ParseAddr(data)
		switch {
		case err != nil:
			return nil, err
		case addr.Is4() != (t == dnsmessage.TypeA):
			return nil, fmt.Errorf("%s is not an address of the type %s", addr, typeName(t))
		case addr.Is4():
			return &dnsmessage.AResource{A: addr.As4()}, nil
		}
		return &dnsmessage.AAAAResource{AAAA: addr.As16()}, nil
	case dnsmessage.TypeTXT:
		r := &dnsmessage.TXTResource{}
		for part := range slices.Chunk([]byte(data), maxString) {
			r.TXT = append(r.TXT, string(part))
		}
		return r, nil
	case dnsmessage.TypeMX, dnsmessage.TypeSRV, dnsmessage.TypeSOA:
		return numbered(t, fields)
	}
	name, err := domain(data)
	switch t {
	case dnsmessage.TypeCNAME:
		return &dnsmessage.CNAMEResource{CNAME: name}, err
	case dnsmessage.TypeNS:
		return &dnsmessage.NSResource{NS: name}, err
	default:
		return &dnsmessage.PTRResource{PTR: name}, err
	}
}

// numbered reads the data of records with names and numbers.
func numbered(t dnsmessage.Type, fields []string) (dnsmessage.ResourceBody, error) {
	var errs []error
	number := func(i, bits int) uint32 {
		n, err := strconv.ParseUint(fields[i], 10, bits)
		errs = append(errs, err)
		return uint32(n)
	}
	name := func(i int) dnsmessage.Name {
		n, err := domain(fields[i])
		errs = append(errs, err)
		return n
	}
	var body dnsmessage.ResourceBody
	switch t {
	case dnsmessage.TypeMX:
		body = &dnsmessage.MXResource{Pref: uint16(number(0, 16)), MX: name(1)}
	case dnsmessage.TypeSRV:
		body = &dnsmessage.SRVResource{Priority: uint16(number(0, 16)), Weight: uint16(number(1, 16)), Port: uint16(number(2, 16)), Target: name(3)}
	default:
		body = &dnsmessage.SOAResource{
			NS: name(0), MBox: name(1), Serial: number(2, 32), Refresh: number(3, 32),
			Retry: number(4, 32), Expire: number(5, 32), MinTTL: number(6, 32),
		}
	}
	return body, errors.Join(errs...)
}

// dataOf returns the data of a record in the form of a zone file.
func dataOf(body dnsmessage.ResourceBody) string {
	name := func(n dnsmessage.Name) string { return strings.TrimSuffix(n.String(), ".") }
	switch b := body.(type) {
	case *dnsmessage.AResource:
		return net.IP(b.A[:]).String()
	case *dnsmessage.AAAAResource:
		return net.IP(b.AAAA[:]).String()
	case *dnsmessage.CNAMEResource:
		return name(b.CNAME)
	case *dnsmessage.NSResource:
		return name(b.NS)
	case *dnsmessage.PTRResource:
		return name(b.PTR)
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", b.Pref, name(b.MX))
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", b.Priority, b.Weight, b.Port, name(b.Target))
	case *dnsmessage.TXTResource:
		return strings.Join(b.TXT, "")
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", name(b.NS), name(b.MBox), b.Serial, b.Refresh, b.Retry, b.Expire, b.MinTTL)
	default:
		return ""
	}
}
