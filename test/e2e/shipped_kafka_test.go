//go:build e2e

package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startKafka starts the clusters of the program kafka. It returns the addresses of the first cluster's brokers,
// and one of each other cluster.
func startKafka(t *testing.T, cert, key string) (brokers []string, secured, faulty string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kafka")
	if out, err := exec.Command("go", "build", "-C", "kafka", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	brokers = []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	secured, faulty = freeAddress(t), freeAddress(t)
	var ports []string
	for _, address := range append(brokers, secured, freeAddress(t), faulty) {
		_, port, _ := net.SplitHostPort(address)
		ports = append(ports, port)
	}
	listening(t, faulty, exec.Command(program, strings.Join(ports[:3], ","), strings.Join(ports[3:5], ","), ports[5], cert, key))
	return brokers, secured, faulty
}

// TestShippedKafka asks the fake clusters of an independent library.
func TestShippedKafka(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	brokers, secured, faulty := startKafka(t, cert, key)
	runShipped(t, "kafka", brokers[0], []shippedCase{
		{"all topics", `{"brokers":{"min":3}}`, "success", "3 brokers, 1 topic with 3 partitions"},
		{"topic that exists", `{"topics":["orders"],"underReplicated":{"max":0}}`, "success", "3 brokers, 1 topic with 3 partitions"},
		{"topic that does not exist", `{"topics":["orders","payments"]}`, "failure", "the topic payments does not exist"},
		{"too few brokers", `{"brokers":{"min":4}}`, "failure", "the number of brokers is 3, below 4"},
		{"TLS that the broker does not have", `{"tls":true}`, "failure", ""},
	})
	tlsConfig := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"username":"probe","password":"open sesame"`
	runShipped(t, "kafka", secured, []shippedCase{
		{"SCRAM-SHA-512", `{` + login + `,` + tlsConfig + `}`, "success", "2 brokers, 1 topic with 1 partition"},
		{"SCRAM-SHA-256", `{"mechanism":"SCRAM-SHA-256",` + login + `,` + tlsConfig + `}`, "success", "2 brokers, 1 topic with 1 partition"},
		{"PLAIN", `{"mechanism":"PLAIN",` + login + `,` + tlsConfig + `}`, "success", "2 brokers, 1 topic with 1 partition"},
		{"wrong password", `{"username":"probe","password":"guess",` + tlsConfig + `}`, "failure", "the login by SCRAM-SHA-512: the server closed the connection"},
		{"unknown user", `{"username":"ann","password":"guess","mechanism":"PLAIN",` + tlsConfig + `}`, "failure", "the login by PLAIN: the server closed the connection"},
		{"without a login", `{` + tlsConfig + `}`, "failure", "Metadata without a login: the server closed the connection"},
		{"certificate that ends soon", `{"certificateAge":{"warn":"48h"},` + login + `,` + tlsConfig + `}`, "warning", "less than 48h"},
		{"certificate of an unknown authority", `{"tls":true,` + login + `}`, "failure", "certificate"},
		{"without TLS", `{}`, "failure", "ApiVersions: the server closed the connection"},
	})
	const lag = `"consumerGroups":[{"group":"billing","lag":{"max":2}}]`
	lags := func(target string, cases []shippedCase) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				v, code := probePluginIn(t, t.TempDir(), "kafka", target, c.config, "--grant", "tcp://127.0.0.1:*")
				want(t, v, code, c.result, c.text)
			})
		}
	}
	lags(brokers[0], []shippedCase{
		{"lag", `{` + lag + `}`, "success", "; lag: billing 2"},
		{"lag above max", `{"consumerGroups":[{"group":"billing","lag":{"max":1}}]}`, "failure", "the lag of the group billing (most in orders-2: 2) is 2, above 1"},
		{"group that does not exist", `{"consumerGroups":[{"group":"lost"}]}`, "failure", "the offsets of the group lost: the group does not exist (69)"},
		{"group without offsets in a topic", `{"consumerGroups":[{"group":"fresh","topics":["orders"]}]}`, "failure", "the group fresh has committed no offset in orders-1, orders-2"},
		{"group of a topic that does not exist", `{"consumerGroups":[{"group":"billing","topics":["payments"]}]}`, "failure", "the group billing: the topic payments does not exist"},
	})
	lags(secured, []shippedCase{{"lag over TLS", `{` + login + `,` + tlsConfig + `,` + lag + `}`, "success", "; lag: billing 2"}})
	runShipped(t, "kafka", faulty, []shippedCase{
		{"faults", `{"underReplicated":{"max":0}}`, "failure", "the cluster has no controller; the cluster has no leader for 1 of 3 partitions: orders-1; the number of under-replicated partitions (orders-2) is 1, above 0"},
	})
	runShipped(t, "kafka", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", `not Kafka: it sent "220 mail.example.com`}})
}
