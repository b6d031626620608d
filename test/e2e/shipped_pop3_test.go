//go:build e2e

package e2e

import (
	"testing"
	"time"
)

func TestShippedPOP3(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	m := startDovecot(t, cert, key)
	tlsConfig := `"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"username":"probe","password":"open sesame",`
	runShipped(t, "pop3", m.pop3, []shippedCase{
		{"greeting", `{"capabilities":["STLS","SASL PLAIN"]}`, "success", "Dovecot"},
		{"missing capability", `{"capabilities":["SASL GSSAPI"]}`, "failure", "the server does not offer SASL GSSAPI"},
		{"login after STLS", `{"startTLS":true,` + login + tlsConfig + `}`, "success", "2 messages, "},
		{"certificate of an unknown authority", `{"startTLS":true}`, "failure", "certificate"},
	})
	runShipped(t, "pop3", m.pop3s, []shippedCase{
		{"messages", `{"tls":true,` + login + `"messages":{"min":2,"max":2},"size":{"min":40,"max":60},"capabilities":["UIDL"],` + tlsConfig + `}`, "success", "2 messages, "},
		{"too many messages", `{"tls":true,` + login + `"messages":{"max":1},` + tlsConfig + `}`, "failure", "the number of messages is 2, above 1"},
		{"wrong password", `{"tls":true,"username":"probe","password":"guess",` + tlsConfig + `}`, "failure", "the login: the server says -ERR [AUTH]"},
		{"certificate that ends soon", `{"tls":true,"certificateAge":{"warn":"48h"},` + tlsConfig + `}`, "warning", "less than 48h"},
	})
	runShipped(t, "pop3", m.imap, []shippedCase{{"IMAP at the port", `{}`, "failure", `not POP3: it sent "* OK`}})
	runShipped(t, "pop3", freeAddress(t), []shippedCase{{"connection refused", `{}`, "failure", "refused"}})
}
