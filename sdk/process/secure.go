package process

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/daeace23/prober/internal/pluginpb"
)

// secure makes go-plugin serve with a certificate of [pluginpb.NewCertificate] instead of its own. It does
// nothing if the host has not sent a certificate.
func secure(config *goplugin.ServeConfig) error {
	host := os.Getenv(pluginpb.CertificateEnv)
	if host == "" {
		return nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(host)) {
		return fmt.Errorf("%s is not a certificate", pluginpb.CertificateEnv)
	}
	own, err := pluginpb.NewCertificate()
	if err != nil {
		return err
	}
	config.TLSProvider = func() (*tls.Config, error) {
		return &tls.Config{
			Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
			MinVersion: tls.VersionTLS12, RootCAs: trusted, ServerName: pluginpb.ServerName,
		}, nil
	}
	return announce(base64.RawStdEncoding.EncodeToString(own.Certificate[0]))
}

// announce adds certificate to the line that go-plugin is about to write to os.Stdout. go-plugin itself
// only writes certificates that it has made.
func announce(certificate string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout := os.Stdout
	os.Stdout = w // go-plugin replaces it again after its line
	go func() {
		lines := bufio.NewReader(r)
		line, _ := lines.ReadString('\n')
		_, _ = io.WriteString(stdout, withCertificate(line, certificate))
		_, _ = io.Copy(stdout, lines)
	}()
	return nil
}

// withCertificate returns go-plugin's line with certificate as its sixth field.
func withCertificate(line, certificate string) string {
	const at = 5
	fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
	if len(fields) <= at {
		return line
	}
	fields[at] = certificate
	return strings.Join(fields, "|") + "\n"
}
