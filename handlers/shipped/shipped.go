// Package shipped has the plugins that are part of every prober binary. Each has a folder with its
// sources and its module. The script build builds the modules.
//
// Begin with [Plugins], and with httpcheck/lib.rs as an example of a plugin. The folder common has shared
// code.
package shipped

import (
	_ "embed" // for the modules
	"fmt"
	"unsafe"

	"github.com/daeace23/prober/plugin"
)

// The modules. Pages of strings are read-only, so footprint.Settle can release them, unlike those of byte slices.
var (
	//go:embed amqp/amqp.wasm
	amqp string
	//go:embed dns/dns.wasm
	dns string
	//go:embed domain/domain.wasm
	domain string
	//go:embed elasticsearch/elasticsearch.wasm
	elasticsearch string
	//go:embed etcd/etcd.wasm
	etcd string
	//go:embed expect/expect.wasm
	expect string
	//go:embed grpc-health/grpc-health.wasm
	grpcHealth string
	//go:embed host/host.wasm
	host string
	//go:embed httpcheck/httpcheck.wasm
	httpcheck string
	//go:embed icmp/icmp.wasm
	icmp string
	//go:embed imap/imap.wasm
	imap string
	//go:embed journey/journey.wasm
	journey string
	//go:embed kafka/kafka.wasm
	kafka string
	//go:embed ldap/ldap.wasm
	ldap string
	//go:embed memcached/memcached.wasm
	memcached string
	//go:embed mongodb/mongodb.wasm
	mongodb string
	//go:embed mqtt/mqtt.wasm
	mqtt string
	//go:embed mysql/mysql.wasm
	mysql string
	//go:embed nats/nats.wasm
	nats string
	//go:embed ntp/ntp.wasm
	ntp string
	//go:embed pop3/pop3.wasm
	pop3 string
	//go:embed postgres/postgres.wasm
	postgres string
	//go:embed redis/redis.wasm
	redis string
	//go:embed s3/s3.wasm
	s3 string
	//go:embed smtp/smtp.wasm
	smtp string
	//go:embed snmp/snmp.wasm
	snmp string
	//go:embed ssh/ssh.wasm
	ssh string
	//go:embed stun/stun.wasm
	stun string
	//go:embed websocket/websocket.wasm
	websocket string
)

// module is the module of a plugin.
type module struct{ name, bytes string }

// modules returns the modules of all plugins, sorted by name.
func modules() []module {
	return []module{
		{"amqp", amqp},
		{"dns", dns},
		{"domain", domain},
		{"elasticsearch", elasticsearch},
		{"etcd", etcd},
		{"expect", expect},
		{"grpc-health", grpcHealth},
		{"host", host},
		{"httpcheck", httpcheck},
		{"icmp", icmp},
		{"imap", imap},
		{"journey", journey},
		{"kafka", kafka},
		{"ldap", ldap},
		{"memcached", memcached},
		{"mongodb", mongodb},
		{"mqtt", mqtt},
		{"mysql", mysql},
		{"nats", nats},
		{"ntp", ntp},
		{"pop3", pop3},
		{"postgres", postgres},
		{"redis", redis},
		{"s3", s3},
		{"smtp", smtp},
		{"snmp", snmp},
		{"ssh", ssh},
		{"stun", stun},
		{"websocket", websocket},
	}
}

// Names returns the names of all shipped plugins, sorted.
func Names() []string {
	var names []string
	for _, m := range modules() {
		names = append(names, m.name)
	}
	return names
}

// Path returns the path of a shipped plugin for messages. No such file exists.
func Path(name string) string { return "built-in:" + name }

// Plugins returns all shipped plugins, sorted by name. It reads their manifests without compiling modules. It
// returns an error only if a manifest is invalid, which the tests rule out. The modules cannot be changed.
func Plugins() ([]plugin.Found, error) {
	var found []plugin.Found
	for _, m := range modules() {
		path, module := Path(m.name), unsafe.Slice(unsafe.StringData(m.bytes), len(m.bytes))
		manifest, err := plugin.ReadModule(path, module)
		if err != nil {
			return nil, fmt.Errorf("shipped plugins: %w", err)
		}
		f := plugin.Found{Manifest: manifest, Path: path}
		f.SetModule(module)
		found = append(found, f)
	}
	return found, nil
}
