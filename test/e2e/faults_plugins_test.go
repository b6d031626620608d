//go:build e2e

package e2e

import (
	"maps"
	"net"
	"testing"
)

// absent has the rows of a port without a server, and of one whose server hangs, with the cause.
func absent(t *testing.T, probe object, cause string) []fault {
	t.Helper()
	return []fault{
		{"port closed", freeAddress(t), probe, "failure", "dial tcp {AT}: connect: connection refused"},
		{"hangs", silent(t), within("1s", probe), "failure", cause},
	}
}

func kafkaFaults(t *testing.T) []fault {
	certs := newShopCertificates(t)
	brokers, secured, faulty := startKafka(t, certs.files[goodCert].chain, certs.files[goodCert].key)
	at, web := brokers[0], nginxPage(t)
	ask := func(fields object) object { return byPlugin("kafka", fields) }
	lag := func(group object) object { return ask(object{"consumerGroups": []object{group}}) }
	login := func(password string) object {
		return ask(certs.tls(object{"tls": true, "username": "probe", "password": password}))
	}
	rows := []fault{
		{"cluster", at, ask(object{}), "success", "3 brokers, 1 topic with 3 partitions"},
		{"a broker is missing", at, ask(object{"brokers": object{"min": 4}}), "failure", "the number of brokers is 3, below 4"},
		{"no topic", at, ask(object{"topics": []string{"payments"}}), "failure", "the topic payments does not exist"},
		{"partitions with faults", faulty, ask(object{}), "failure", "the cluster has no controller; the cluster has no leader for 1 of 3 partitions: orders-1"},
		{"lag", at, lag(object{"group": "billing"}), "success", "3 brokers, 1 topic with 3 partitions; lag: billing 2"},
		{"group is behind", at, lag(object{"group": "billing", "lag": object{"warnAbove": 1}}), "warning", "the lag of the group billing (most in orders-2: 2) is 2, above 1"},
		{"group is gone", at, lag(object{"group": "gone"}), "failure", "the offsets of the group gone: the group does not exist (69)"},
		{"group has no offset", at, lag(object{"group": "fresh", "topics": []string{"orders"}}), "failure", "the group fresh has committed no offset in orders-1, orders-2"},
		{"login", secured, login("open sesame"), "success", "2 brokers, 1 topic with 1 partition"},
		{"wrong password", secured, login("guess"), "failure", "the login by SCRAM-SHA-512: the server closed the connection"},
		{"no login", secured, ask(certs.tls(object{"tls": true})), "failure", "Metadata without a login: the server closed the connection"},
		{"no TLS on a port with it", secured, ask(object{}), "failure", "ApiVersions: the server closed the connection"},
		{"TLS on a port without it", at, within("1s", ask(object{"tls": true})), "failure", "timed out after 1s: starttls tcp {AT}: the TLS handshake is not finished; …"},
		{"nginx at the port", web, ask(object{}), "failure", `not Kafka: it sent "HTTP/1.1 400 Bad Request"`},
		{"redis at the port", redisServer(t).at, within("1s", ask(object{})), "failure", "no answer to ApiVersions; the deadline of 1s has passed"},
		{"cut answer", cut(t, at, 8), ask(object{}), "failure", "ApiVersions: the server closed the connection after 8 bytes"},
		{"answer stops", stalled(t, at, 8), within("1s", ask(object{})), "failure", "unfinished answer to ApiVersions: 8 bytes; the deadline of 1s has passed"},
	}
	return append(rows, absent(t, ask(object{}), "no answer to ApiVersions; the deadline of 1s has passed")...)
}

func etcdFaults(t *testing.T) []fault {
	at, lone := freeAddress(t), freeAddress(t)
	startEtcd(t, "one", "http://"+at, map[string]string{"one": freeAddress(t)})
	startEtcd(t, "a", "http://"+lone, map[string]string{"a": freeAddress(t), "b": freeAddress(t)})
	web := nginxPage(t)
	ask := func(fields object) object { return byPlugin("etcd", fields) }
	return []fault{
		{"healthy", at, ask(object{}), "success", "healthy: etcd 3.…, the leader, a database of … bytes"},
		{"cluster that has not begun", lone, within("1s", ask(object{})), "failure", "no answer to GET /health; the deadline of 1s has passed"},
		{"large database", at, ask(object{"dbSize": object{"max": 1000}}), "failure", "the size of the database is …, above 1000"},
		{"no authentication", at, ask(object{"username": "root", "password": "guess"}), "failure", "POST /v3/auth/authenticate: etcdserver: authentication is not enabled"},
		{"TLS on a port without it", at, ask(object{"tls": true}), "failure", "GET /health: http: tls: the server closed the connection within the handshake"},
		{"nginx at the port", web, ask(object{}), "failure", "not etcd: GET /health: HTTP status 200: welcome to the shop, which sells things"},
		{"redis at the port", redisServer(t).at, ask(object{}), "failure", "GET /health: http: the server closed the connection without a response"},
		{"cut answer", cut(t, at, 17), ask(object{}), "failure", "GET /health: http: the server closed the connection within the response headers"},
		{"answer stops", stalled(t, at, 17), within("1s", ask(object{})), "failure", "no answer to GET /health; the deadline of 1s has passed"},
		{"port closed", freeAddress(t), ask(object{}), "failure", "GET /health: http: dial tcp {AT}: connect: connection refused"},
		{"hangs", silent(t), within("1s", ask(object{})), "failure", "no answer to GET /health; the deadline of 1s has passed"},
	}
}

func mongoDBFaults(t *testing.T) []fault {
	certs := newShopCertificates(t)
	at, secured := startMongoDB(t, certs.files[goodCert].chain, certs.files[goodCert].key)
	web := nginxPage(t)
	ask := func(fields object) object { return byPlugin("mongodb", fields) }
	user := func(fields object) object {
		maps.Copy(fields, object{"username": "probe", "password": "open sesame"})
		return ask(fields)
	}
	rows := []fault{
		{"primary", at, ask(object{}), "success", "…a primary of the replica set rs0 answers"},
		{"wrong password", at, ask(object{"username": "probe", "password": "guess"}), "failure", "the login: Authentication failed. (AuthenticationFailed)"},
		{"no login", at, ask(object{"replication": true}), "failure", "replSetGetStatus: Command replSetGetStatus requires authentication (Unauthorized)"},
		{"member is down", at, user(object{"replication": true}), "warning", "1 of 3 members are not healthy: db-2:27017 is (not reachable/healthy)"},
		{"member is behind", at, user(object{"lag": object{"fail": "1m"}, "members": object{"min": 1}}), "failure", "the member db-1:27017 is 90.0 s behind, more than 1m"},
		{"another role", at, ask(object{"role": "secondary"}), "failure", "the role is primary, want secondary"},
		{"good certificate", secured, ask(certs.tls(object{"tls": true})), "success", "…a primary of the replica set rs0 answers"},
		{"wrong name", secured, ask(object{"tls": true, "tlsConfig": object{"serverName": "mail.test", "ca": certs.root}}), "failure", "tls: failed to verify certificate: x509: certificate is valid for shop.test, not mail.test"},
		{"no TLS on a port with it", secured, ask(object{}), "failure", "hello: the server closed the connection"},
		{"TLS on a port without it", at, ask(object{"tls": true}), "failure", "tls: …"},
		{"nginx at the port", web, ask(object{}), "failure", `not MongoDB: it sent "HTTP/1.1 400 Bad Request"`},
		{"cut answer", cut(t, at, 8), ask(object{}), "failure", "hello: the server closed the connection after 8 bytes"},
		{"answer stops", stalled(t, at, 8), within("1s", ask(object{})), "failure", "unfinished answer to hello: 8 bytes; the deadline of 1s has passed"},
	}
	return append(rows, absent(t, ask(object{}), "no answer to hello; the deadline of 1s has passed")...)
}

func s3Faults(t *testing.T) []fault {
	at := startS3(t, "0s")
	ahead := startS3(t, "1h")
	web := nginxPage(t)
	ask := func(fields object) object {
		config := object{"bucket": "backups", "accessKeyId": "PROBE", "secretAccessKey": "open sesame"}
		maps.Copy(config, fields)
		return byPlugin("s3", config)
	}
	return []fault{
		{"bucket", at, ask(object{}), "success", "the bucket backups exists"},
		{"no bucket", at, ask(object{"bucket": "gone"}), "failure", "the bucket gone: HTTP status 404: NoSuchBucket: The specified bucket does not exist"},
		{"no object", at, ask(object{"key": "db/gone"}), "failure", "the object db/gone: HTTP status 404: NoSuchKey"},
		{"nothing below the prefix", at, ask(object{"prefix": "gone/"}), "failure", `the bucket backups has no object below "gone/"`},
		{"object is too small", at, ask(object{"key": "db/old", "size": object{"min": 2}}), "failure", "the size of the object db/old is 1, below 2"},
		{"wrong secret", at, ask(object{"secretAccessKey": "guess"}), "failure", "the bucket backups: HTTP status 403: SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided. Check your key and signing method."},
		{"clock is behind", ahead, ask(object{"prefix": "db/"}), "failure", "the bucket backups: HTTP status 403: RequestTimeTooSkewed: …; the clock of this host is 3600 s behind the server's"},
		{"nginx at the port", web, ask(object{"prefix": "db/"}), "failure", `not S3: the list of the bucket backups: it is "welcome to the shop, which sells things"`},
		{"redis at the port", redisServer(t).at, ask(object{}), "failure", "HEAD /backups: http: the server closed the connection without a response"},
		{"cut answer", cut(t, at, 17), ask(object{}), "failure", "HEAD /backups: http: the server closed the connection within the response headers"},
		{"port closed", freeAddress(t), ask(object{}), "failure", "HEAD /backups: http: dial tcp {AT}: connect: connection refused"},
		{"hangs", silent(t), within("1s", ask(object{})), "failure", "no answer to HEAD /backups; the deadline of 1s has passed"},
	}
}

func coturnFaults(t *testing.T) []fault {
	certs := newShopCertificates(t)
	plain, secured := startCoturn(t, certs.files[goodCert].chain, certs.files[goodCert].key)
	web := nginxPage(t)
	ask := func(fields object) object { return byPlugin("stun", fields) }
	tcp := ask(object{"protocol": "tcp"})
	rows := []fault{
		{"UDP", plain, ask(object{}), "success", "seen as 127.0.0.1:… by Coturn-4.…"},
		{"another address", plain, ask(object{"address": "203.0.113.7"}), "failure", "the server sees the address 127.0.0.1, want 203.0.113.7"},
		{"UDP port closed", freeAddress(t), ask(object{}), "failure", "read udp …->{AT}: read: connection refused"},
		{"good certificate", secured, ask(certs.tls(object{"tls": true})), "success", "seen as 127.0.0.1:… by Coturn-4.…"},
		{"TLS on a port without it", web, ask(object{"tls": true}), "failure", "tls: first record does not look like a TLS handshake"},
		{"nginx at the port", web, tcp, "failure", `not STUN: it sent "HTTP/1.1 400 Bad Request"`},
		{"cut answer", cut(t, plain, 8), tcp, "failure", "the binding request: the server closed the connection after 8 bytes"},
		{"answer stops", stalled(t, plain, 8), within("1s", tcp), "failure", "unfinished answer to the binding request: 8 bytes; the deadline of 1s has passed"},
	}
	return append(rows, absent(t, tcp, "no answer to the binding request; the deadline of 1s has passed")...)
}

func snmpdFaults(t *testing.T) []fault {
	at := startSNMP(t)
	ask := func(fields object) object {
		config := object{"community": "opensesame"}
		maps.Copy(config, fields)
		return byPlugin("snmp", config)
	}
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return []fault{
		{"uptime", at, ask(object{}), "success", "1.3.6.1.2.1.1.3.0 is …"},
		{"another value", at, ask(object{"oid": "1.3.6.1.2.1.1.5.0", "value": object{"equals": "edge"}}), "failure", `the value is "core-1", want "edge"`},
		{"no instance", at, ask(object{"oid": "1.3.6.1.2.1.1.5.1"}), "failure", "1.3.6.1.2.1.1.5.1 has no value: no such instance"},
		{"wrong community", at, within("1s", ask(object{"community": "guess"})), "failure", "no answer, as to a wrong community; the deadline of 1s has passed"},
		{"port closed", freeAddress(t), ask(object{}), "failure", "read udp …->{AT}: read: connection refused"},
		{"hangs", l.LocalAddr().String(), within("1s", ask(object{})), "failure", "no answer, as to a wrong community; the deadline of 1s has passed"},
	}
}

// mailFaults has rows of the shipped plugins imap and pop3.
func mailFaults(t *testing.T) []fault {
	certs := newShopCertificates(t)
	m := startDovecot(t, certs.files[goodCert].chain, certs.files[goodCert].key)
	web := nginxPage(t)
	imap := func(fields object) object { return byPlugin("imap", fields) }
	pop3 := func(fields object) object { return byPlugin("pop3", fields) }
	login := func(password string, more object) object {
		fields := certs.tls(object{"tls": true, "username": "probe", "password": password})
		maps.Copy(fields, more)
		return fields
	}
	rows := []fault{
		{"imap: messages", m.imaps, imap(login("open sesame", object{"messages": object{"min": 1}})), "success", "Dovecot… ready.; INBOX has 2 messages, 1 unseen"},
		{"imap: too many messages", m.imaps, imap(login("open sesame", object{"messages": object{"max": 1}})), "failure", "the number of messages in INBOX is 2, above 1"},
		{"imap: wrong password", m.imaps, imap(login("guess", nil)), "failure", "the login: the server says NO [AUTHENTICATIONFAILED] Authentication failed."},
		{"imap: no capability", m.imap, imap(object{"capabilities": []string{"XLIST"}}), "failure", "the server does not offer XLIST"},
		{"imap: no TLS on a port with it", m.imaps, within("1s", imap(object{})), "failure", noGreeting},
		{"imap: TLS on a port without it", m.imap, imap(object{"tls": true}), "failure", "tls: first record does not look like a TLS handshake"},
		{"imap: POP3 at the port", m.pop3, imap(object{}), "failure", `not IMAP: it sent "+OK Dovecot… ready."`},
		{"imap: cut greeting", cut(t, m.imap, 3), imap(object{}), "failure", `the greeting: the server closed the connection after 3 bytes, "* O"`},
		{"imap: nginx at the port", web, within("1s", imap(object{})), "failure", noGreeting},
		{"pop3: messages", m.pop3s, pop3(login("open sesame", nil)), "success", "Dovecot… ready.; 2 messages, … bytes"},
		{"pop3: too many messages", m.pop3s, pop3(login("open sesame", object{"messages": object{"max": 1}})), "failure", "the number of messages is 2, above 1"},
		{"pop3: wrong password", m.pop3s, pop3(login("guess", nil)), "failure", "the login: the server says -ERR [AUTH] Authentication failed."},
		{"pop3: no TLS on a port with it", m.pop3s, within("1s", pop3(object{})), "failure", noGreeting},
		{"pop3: IMAP at the port", m.imap, pop3(object{}), "failure", `not POP3: it sent "* OK …`},
		{"pop3: cut greeting", cut(t, m.pop3, 3), pop3(object{}), "failure", `the greeting: the server closed the connection after 3 bytes, "+OK"`},
	}
	for name, probe := range map[string]object{"imap: ": imap(object{}), "pop3: ": pop3(object{})} {
		for _, row := range absent(t, probe, noGreeting) {
			row.name = name + row.name
			rows = append(rows, row)
		}
	}
	return rows
}
