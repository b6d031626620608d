package certificates

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/url"
	"time"

	"github.com/daeace23/prober/internal/clip"
)

// Description describes a certificate with texts of bounded length.
type Description struct {
	Subject   string   // distinguished name; may be empty
	Names     []string // DNS names, IP addresses, URIs and mail addresses, at most 16
	MoreNames int      // number of names beyond those
	Issuer    string   // distinguished name
	NotBefore time.Time
	NotAfter  time.Time
	Serial    string // hexadecimal
	SHA256    [sha256.Size]byte
}

const (
	maxNames  = 16
	maxSerial = 64 // characters; RFC 5280 allows 40
)

// Describe describes a certificate. The description does not keep it in memory.
func Describe(cert *x509.Certificate) Description {
	d := Description{
		Subject: clip.Text(cert.Subject.String(), maxName), Issuer: clip.Text(cert.Issuer.String(), maxName),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, SHA256: sha256.Sum256(cert.Raw),
	}
	if cert.SerialNumber != nil {
		d.Serial = clip.Text(hex.EncodeToString(cert.SerialNumber.Bytes()), maxSerial)
	}
	all := len(cert.DNSNames) + len(cert.IPAddresses) + len(cert.URIs) + len(cert.EmailAddresses)
	d.Names = make([]string, 0, min(all, maxNames))
	addNames(&d, cert.DNSNames, func(name string) string { return name })
	addNames(&d, cert.IPAddresses, net.IP.String)
	addNames(&d, cert.URIs, (*url.URL).String)
	addNames(&d, cert.EmailAddresses, func(name string) string { return name })
	d.MoreNames = all - len(d.Names)
	return d
}

// addNames adds names up to the limit.
func addNames[T any](d *Description, names []T, text func(T) string) {
	for _, name := range names[:min(len(names), maxNames-len(d.Names))] {
		d.Names = append(d.Names, clip.Text(text(name), maxName))
	}
}
