//go:build !wasip1

package abi

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"

	"github.com/daeace23/prober/internal/certificates"
)

// TLSInfoOf describes a handshake that the host made. Guests do not link it, because crypto/tls is many
// times their size. now is the time of the handshake.
func TLSInfoOf(state *tls.ConnectionState, now time.Time) *TLSInfo {
	info := &TLSInfo{
		Version:    tls.VersionName(state.Version),
		Cipher:     tls.CipherSuiteName(state.CipherSuite),
		ALPN:       state.NegotiatedProtocol,
		ServerName: state.ServerName,
	}
	for _, cert := range state.PeerCertificates {
		info.Certificates = append(info.Certificates, certificateOf(cert))
	}
	info.ChainNotAfter = chainNotAfter(state.VerifiedChains)
	chain, leaf := certificates.Ends(state, now)
	if chain.Text != "" {
		info.ChainEndsAt, info.ChainEnd, info.LeafEnd = chain.NotAfter.Unix(), chain.Text, leaf.Text
	}
	return info
}

// chainNotAfter returns the latest expiry of a chain, in seconds since 1970, or 0 without chains. A chain
// expires with its first certificate that expires.
func chainNotAfter(chains [][]*x509.Certificate) (last int64) {
	for _, chain := range chains {
		first := int64(0)
		for _, cert := range chain {
			if end := cert.NotAfter.Unix(); first == 0 || end < first {
				first = end
			}
		}
		last = max(last, first)
	}
	return last
}

func certificateOf(cert *x509.Certificate) Certificate {
	sum := sha256.Sum256(cert.Raw)
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	return Certificate{
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(),
		NotBefore: cert.NotBefore.Truncate(time.Second), NotAfter: cert.NotAfter.Truncate(time.Second),
		SANs: append(names, cert.EmailAddresses...), SHA256: hex.EncodeToString(sum[:]),
		Serial: serialOf(cert),
	}
}

func serialOf(cert *x509.Certificate) string {
	if cert.SerialNumber == nil {
		return ""
	}
	return hex.EncodeToString(cert.SerialNumber.Bytes())
}
