//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// definitions has the user, the virtual hosts and the queues of a broker.
const definitions = `{
	"users": [{"name": "probe", "password": "open sesame", "tags": ""}],
	"vhosts": [{"name": "/"}, {"name": "shop"}],
	"permissions": [{"user": "probe", "vhost": "shop", "configure": "^$", "write": ".*", "read": ".*"}],
	"queues": [
		{"name": "orders", "vhost": "shop", "durable": true, "auto_delete": false, "arguments": {}},
		{"name": "mails", "vhost": "shop", "durable": true, "auto_delete": false, "arguments": {}}
	]
}`

// startRabbitMQ starts a broker with its own name server, and returns its addresses without and with TLS.
func startRabbitMQ(t *testing.T, cert, key string) (plain, secured string) {
	t.Helper()
	folder := dataFolder(t)
	plain, secured = freeAddress(t), freeAddress(t)
	names, nodes := freeAddress(t), freeAddress(t)
	_, namesPort, _ := net.SplitHostPort(names)
	_, nodesPort, _ := net.SplitHostPort(nodes)
	for name, text := range map[string]string{
		"definitions.json": definitions,
		"rabbitmq.conf": fmt.Sprintf(`listeners.tcp.1 = %s
listeners.ssl.1 = %s
ssl_options.certfile = %s
ssl_options.keyfile = %s
load_definitions = %s/definitions.json
log.console = true
log.file = false
`, plain, secured, cert, key, folder),
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
	}
	listening(t, names, unprivileged(t, "epmd", "-port", namesPort, "-address", "127.0.0.1"))
	server := unprivileged(t, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	server.Env = append(os.Environ(), "HOME="+folder, "ERL_EPMD_PORT="+namesPort, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=probe@localhost", "RABBITMQ_DIST_PORT="+nodesPort, "RABBITMQ_CONFIG_FILE="+folder+"/rabbitmq.conf",
		"RABBITMQ_MNESIA_BASE="+folder+"/mnesia", "RABBITMQ_LOG_BASE="+folder+"/log", "RABBITMQ_ENABLED_PLUGINS_FILE="+folder+"/plugins",
		"RABBITMQ_CONF_ENV_FILE=/dev/null")
	if server.SysProcAttr == nil {
		server.SysProcAttr = &syscall.SysProcAttr{}
	}
	server.SysProcAttr.Setpgid = true // the server is a child of a script
	t.Cleanup(func() {
		if server.Process != nil {
			syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		}
	})
	listening(t, secured, server)
	return plain, secured
}

func TestShippedAMQP(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	plain, secured := startRabbitMQ(t, cert, key)
	url := "amqp://probe:open%20sesame@" + plain + "/shop"
	for range 3 {
		run(t, exec.Command("amqp-publish", "-u", url, "-r", "orders", "-b", "order"))
	}
	consumer := exec.Command("amqp-consume", "-u", url, "-q", "mails", "cat")
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		consumer.Process.Kill()
		consumer.Wait()
	})
	const login = `"username":"probe","password":"open sesame"`
	await(t, "the consumer", func() bool {
		v, _ := probeShipped(t, "amqp", plain, `{`+login+`,"vhost":"shop","queue":{"name":"mails","consumers":{"min":1}}}`)
		return v.Result == "success"
	})
	runShipped(t, "amqp", plain, []shippedCase{
		{"greeting", `{}`, "success", "RabbitMQ 3."},
		{"login", `{` + login + `,"vhost":"shop"}`, "success", "RabbitMQ 3."},
		{"queue", `{` + login + `,"vhost":"shop","queue":{"name":"orders","messages":{"max":3}}}`, "success", "the queue orders has 3 messages and 0 consumers"},
		{"queue with consumers", `{` + login + `,"vhost":"shop","queue":{"name":"mails"}}`, "success", "the queue mails has 0 messages and 1 consumer"},
		{"queue with too many messages", `{` + login + `,"vhost":"shop","queue":{"name":"orders","messages":{"max":2}}}`, "failure", "the number of messages of the queue orders is 3, above 2"},
		{"queue without consumers", `{` + login + `,"vhost":"shop","queue":{"name":"orders","consumers":{"min":1}}}`, "failure", "the number of consumers of the queue orders is 0, below 1"},
		{"queue that does not exist", `{` + login + `,"vhost":"shop","queue":{"name":"lost"}}`, "failure", "the queue lost: NOT_FOUND - no queue 'lost' in vhost 'shop' (404)"},
		{"virtual host that does not exist", `{` + login + `,"vhost":"lost"}`, "failure", "NOT_ALLOWED - vhost lost not found (530)"},
		{"virtual host that the user may not use", `{` + login + `}`, "failure", "NOT_ALLOWED - access to vhost '/' refused for user 'probe' (530)"},
		{"wrong password", `{"username":"probe","password":"guess"}`, "failure", "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"},
	})
	tlsConfig := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "amqp", secured, []shippedCase{
		{"over TLS", `{` + login + `,"vhost":"shop",` + tlsConfig + `}`, "success", "RabbitMQ 3."},
		{"certificate that ends soon", `{` + login + `,"vhost":"shop","certificateAge":{"warn":"48h"},` + tlsConfig + `}`, "warning", "less than 48h"},
		{"certificate of an unknown authority", `{"tls":true}`, "failure", "certificate"},
		{"without TLS", `{}`, "failure", "the server answers with an alert of TLS: it may need the field tls"},
	})
	runShipped(t, "amqp", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", `not AMQP: it sent "220 mail.example.com`}})
}
