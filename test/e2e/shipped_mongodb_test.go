//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startMongoDB starts a primary of a replica set that is made of the packages of MongoDB's driver. It returns its
// addresses without and with TLS.
func startMongoDB(t *testing.T, cert, key string) (primary, secured string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mongodb")
	if out, err := exec.Command("go", "build", "-C", "mongodb", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	primary, secured = freeAddress(t), freeAddress(t)
	listening(t, secured, exec.Command(program, primary, secured, cert, key))
	return primary, secured
}

func TestShippedMongoDB(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	primary, secured := startMongoDB(t, cert, key)
	tlsConfig := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "mongodb", secured, []shippedCase{
		{"over TLS", `{` + tlsConfig + `}`, "success", "a primary of the replica set rs0 answers"},
		{"certificate that ends soon", `{"certificateAge":{"warn":"48h"},` + tlsConfig + `}`, "warning", "less than 48h"},
		{"certificate of an unknown authority", `{"tls":true}`, "failure", "certificate"},
	})
	const login = `"username":"probe","password":"open sesame"`
	runShipped(t, "mongodb", primary, []shippedCase{
		{"login", `{` + login + `,"role":"primary","replicaSet":"rs0"}`, "success", "a primary of the replica set rs0 answers"},
		{"wrong password", `{"username":"probe","password":"guess"}`, "failure", "the login: Authentication failed. (AuthenticationFailed)"},
		{"unknown user", `{"username":"ann","password":"guess"}`, "failure", "the login: Authentication failed. (AuthenticationFailed)"},
		{"status without a login", `{"replication":true}`, "failure", "replSetGetStatus: Command replSetGetStatus requires authentication (Unauthorized)"},
		{"member that is down", `{` + login + `,"replication":true}`, "warning", "1 of 3 members are not healthy: db-2:27017 is (not reachable/healthy)"},
		{"secondary that is behind", `{` + login + `,"lag":{"fail":"1m"}}`, "failure", "the member db-1:27017 is 90.0 s behind, more than 1m"},
		{"secondary", `{"role":"secondary"}`, "failure", "the role is primary, want secondary"},
	})
	runShipped(t, "mongodb", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", `not MongoDB: it sent "220 mail.example.com`}})
}
