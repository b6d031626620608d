package api

import (
	"slices"
	"time"
)

// CertificateList is the response of /api/v1/certificates: the certificate that ends first comes first. Metadata is
// empty unless a limit was set.
type CertificateList struct {
	Metadata ListMeta      `json:"metadata,omitzero"`
	Items    []Certificate `json:"items"`
}

// The values of [Certificate].Verification.
const (
	Verified    = "verified"
	NotVerified = "not verified"
	NotChecked  = "not checked"
)

// verifications has the values of [Certificate].Verification, the one that says most last.
var verifications = [...]string{NotChecked, Verified, NotVerified}

// Outranks reports whether a verification says more about a certificate than another one.
func Outranks(verification, other string) bool {
	return slices.Index(verifications[:], verification) > slices.Index(verifications[:], other)
}

// Certificate is a certificate that servers show in the TLS handshakes of probes. A server has written its texts;
// long ones are cut.
type Certificate struct {
	Subject   string    `json:"subject"`            // distinguished name, such as "CN=shop.example"; may be empty
	Names     []string  `json:"names"`              // DNS names, IP addresses, URIs and mail addresses, at most 16
	MoreNames int       `json:"moreNames,omitzero"` // number of names beyond those
	Issuer    string    `json:"issuer"`             // distinguished name
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// DaysLeft is the number of whole days until NotAfter; negative after it.
	DaysLeft int `json:"daysLeft"`
	// EndsSoon means that less than 14 days, and less than a third of its life, are left.
	EndsSoon bool   `json:"endsSoon,omitzero"`
	Serial   string `json:"serial"` // hexadecimal
	SHA256   string `json:"sha256"` // fingerprint, hexadecimal
	// Verification is "not verified" if a probe has rejected the certificates of a server with this one, else
	// "verified" if a probe has verified them, and "not checked" if no probe verifies them.
	Verification string `json:"verification"`
	Why          string `json:"why,omitzero"` // why it is not verified
	ProbeCount   int    `json:"probeCount"`   // number of probes that see it
	// Probes are the probes that see it, sorted by their names. The parameter "probes" of the list limits them.
	Probes []CertificateProbe `json:"probes"`
}

// CertificateProbe is a probe that sees a certificate.
type CertificateProbe struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`     // "liveness", "readiness" or "startup"
	Position  int    `json:"position"` // in what the server sends: 1 is the server's own certificate
	Sent      int    `json:"sent"`     // number of certificates that the server sends
	// Verification and Why are about all certificates that the server sends.
	Verification string    `json:"verification"`
	Why          string    `json:"why,omitzero"`
	Seen         time.Time `json:"seen"` // time of the last handshake with it
}

// SetProbes sets the probes, and the fields about all of them.
func (c *Certificate) SetProbes(all []CertificateProbe) {
	c.Probes, c.ProbeCount, c.Verification, c.Why = all, len(all), NotChecked, ""
	for i := range all {
		if p := &all[i]; Outranks(p.Verification, c.Verification) {
			c.Verification, c.Why = p.Verification, p.Why
		}
	}
}

// Only returns the certificate as if only the probes for which match returns true saw it; false if there are none.
func (c *Certificate) Only(match func(*CertificateProbe) bool) (only Certificate, ok bool) {
	var probes []CertificateProbe
	for i := range c.Probes {
		if match(&c.Probes[i]) {
			probes = append(probes, c.Probes[i])
		}
	}
	if len(probes) == len(c.Probes) {
		return *c, len(probes) > 0
	}
	only = *c
	only.SetProbes(probes)
	return only, len(probes) > 0
}
