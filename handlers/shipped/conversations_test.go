package shipped_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// conversation is what a server sends in a Success of a plugin.
type conversation struct {
	plugin, config string
	greets         bool     // sends its first message before the client
	sends          []string // each after the client has sent something
	optional       int      // how many bytes at the end the plugin does not need
}

// conversations has one conversation of each plugin that speaks a protocol of its own.
var conversations = []conversation{
	{
		plugin: "grpc-health", config: `{"service":"shop"}`,
		sends: []string{
			"\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
				"\x00\x00\x14\x01\x04\x00\x00\x00\x01\x88\x0f\x10\x10application/grpc" +
				"\x00\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x02\x08\x01" +
				"\x00\x00\x0f\x01\x05\x00\x00\x00\x01\x00\x0bgrpc-status\x010",
		},
	},
	{
		plugin: "amqp", config: `{"username":"probe","password":"open sesame","queue":{"name":"orders","consumers":{"min":1}}}`,
		sends: []string{
			method(0, "\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x0f\x07productS\x00\x00\x00\x02MQ\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"),
			method(0, "\x00\x0a\x00\x1e\x00\x01\x00\x02\x00\x00\x00\x00"),
			method(0, "\x00\x0a\x00\x29\x00"),
			method(1, "\x00\x14\x00\x0b\x00\x00\x00\x00"),
			method(1, "\x00\x32\x00\x0b\x06orders\x00\x00\x00\x03\x00\x00\x00\x01"),
			method(0, "\x00\x0a\x00\x33"),
		},
	},
	{
		plugin: "imap", config: `{"capabilities":["IDLE"]}`, greets: true, optional: len("* BYE\r\np2 OK\r\n"),
		sends: []string{"* OK ready\r\n", "* CAPABILITY IDLE\r\np1 OK\r\n", "* BYE\r\np2 OK\r\n"},
	},
	{
		plugin: "kafka", config: `{"topics":["orders"],"consumerGroups":[{"group":"billing"}]}`,
		sends: []string{
			sized("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x04\x00\x02\x00\x00\x00\x0a\x00\x03\x00\x00\x00\x0c\x00\x09\x00\x00\x00\x09\x00\x0a\x00\x00\x00\x06"),
			sized("\x00\x00\x00\x02" + metadata),
			sized("\x00\x00\x00\x03\x00\x00\x00\x00" + "\x00\x00\xff\xff\x00\x00\x00\x01\x00\x01k\x00\x00\x23\x84"),
			sized("\x00\x00\x00\x04\x00\x00\x00\x01\x00\x06orders" + "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\x00\x00" + "\x00\x00"),
			sized("\x00\x00\x00\x05" + metadata),
			sized("\x00\x00\x00\x06\x00\x00\x00\x01\x00\x06orders" + "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" + strings.Repeat("\xff", 8) + "\x00\x00\x00\x00\x00\x00\x00\x09"),
		},
	},
	{
		plugin: "ldap", config: `{}`,
		sends: []string{
			"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00",
			"\x30\x09\x02\x01\x02\x64\x04\x04\x00\x30\x00" + "\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
		},
	},
	{
		plugin: "mongodb", config: `{"replicaSet":"rs0"}`,
		sends: []string{
			opMsg(1, "\x02setName\x00\x04\x00\x00\x00rs0\x00\x08isWritablePrimary\x00\x01\x01ok\x00\x00\x00\x00\x00\x00\x00\xf0\x3f"),
			opMsg(2, "\x01ok\x00\x00\x00\x00\x00\x00\x00\xf0\x3f"),
		},
	},
	{
		plugin: "memcached", config: `{"username":"probe","password":"open sesame","key":"jobs","value":{"max":12}}`,
		sends: []string{
			"STORED\r\n", "STAT uptime 12\r\nSTAT limit_maxbytes 1000\r\nSTAT bytes 990\r\nEND\r\n", "VALUE jobs 0 2\r\n12\r\nEND\r\n",
		},
	},
	{
		plugin: "mqtt", config: `{"message":{"topic":"status","contains":"online"}}`,
		sends: []string{"\x20\x02\x00\x00", "\x90\x03\x00\x01\x00\x31\x0e\x00\x06statusonline", "\xd0\x00"},
	},
	{
		plugin: "mysql", config: `{"username":"probe","password":"open sesame","query":"SELECT 1","value":{"equals":1}}`, greets: true,
		sends: []string{
			packet(0, "\x0a10.11.6-MariaDB\x00\x07\x00\x00\x00abcdefgh\x00\xff\xf7\x2d\x02\x00\xff\x81\x15"+strings.Repeat("\x00", 10)+"ijklmnopqrst\x00mysql_native_password\x00"),
			packet(2, "\x00\x00\x00\x02\x00\x00\x00"),
			packet(1, "\x00\x00\x00\x02\x00\x00\x00"),
			packet(1, "\x01") + packet(2, "\x03def\x00\x00\x00\x011\x00\x0c\x3f\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00") + packet(3, "\xfe\x00\x00\x02\x00") + packet(4, "\x011") + packet(5, "\xfe\x00\x00\x02\x00"),
		},
	},
	{
		plugin: "pop3", config: `{"capabilities":["UIDL"]}`, greets: true, optional: len("+OK\r\n"),
		sends: []string{"+OK ready\r\n", "+OK\r\nUIDL\r\n.\r\n", "+OK\r\n"},
	},
	{
		plugin: "nats", config: `{"username":"probe","password":"open sesame"}`, greets: true,
		sends: []string{"INFO {\"server_name\":\"alpha\",\"version\":\"2.9.10\",\"max_payload\":1048576} \r\n", "+OK\r\nPONG\r\n"},
	},
	{
		plugin: "postgres", config: `{"query":"SELECT 1","value":{"equals":1}}`,
		sends: []string{
			message('R', "\x00\x00\x00\x00") + message('S', "server_version\x0015.3\x00") + message('Z', "I"),
			message('T', "\x00\x01one\x00"+strings.Repeat("\x00", 18)) + message('D', "\x00\x01\x00\x00\x00\x011") + message('C', "SELECT 1\x00") + message('Z', "I"),
		},
	},
	{
		plugin: "redis", config: `{"password":"open sesame","role":"replica","lag":{"fail":"1m"}}`,
		sends: []string{"+OK\r\n", "+PONG\r\n", "$65\r\nrole:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:2\r\n\r\n"},
	},
	{
		plugin: "smtp", config: `{"extensions":["SIZE"]}`, greets: true, optional: len("221 bye\r\n"),
		sends: []string{"220-mail\r\n220 ready\r\n", "250-mail\r\n250 SIZE 1000\r\n", "221 bye\r\n"},
	},
	{
		plugin: "ssh", config: `{"software":"OpenSSH_"}`, greets: true,
		sends: []string{"welcome\r\nSSH-2.0-OpenSSH_9.2\r\n"},
	},
}

// packet returns a packet of MySQL.
func packet(number byte, body string) string {
	return string([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}) + body
}

// message returns a message of PostgreSQL.
func message(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

// method returns a frame of AMQP.
func method(channel byte, body string) string {
	return string([]byte{1, 0, channel}) + sized(body) + "\xce"
}

// opMsg returns MongoDB's answer to a request, with the elements of its document.
func opMsg(request byte, elements string) string {
	head := "\x07\x00\x00\x00" + string([]byte{request}) + "\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00"
	document := string(binary.LittleEndian.AppendUint32(nil, uint32(len(elements)+5))) + elements + "\x00"
	return string(binary.LittleEndian.AppendUint32(nil, uint32(4+len(head)+len(document)))) + head + document
}

// metadata describes a cluster of Kafka with one broker, and a topic with one partition.
const metadata = "\x00\x00\x00\x00" + "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01k\x00\x00\x23\x84\xff\xff" + "\x00\x01c\x00\x00\x00\x01" +
	"\x00\x00\x00\x01\x00\x00\x00\x06orders\x00" + "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01"

// sized returns a message of Kafka.
func sized(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// serve is a server of the conversation, whose bytes edit may change. After them it closes the connection, as it
// does if the client sends nothing for a time.
func (c conversation) serve(conn net.Conn, patience time.Duration, edit func(sent int, data []byte) []byte) {
	defer conn.Close()
	sent, buf := 0, make([]byte, 4096)
	for i, text := range c.sends {
		if i > 0 || !c.greets {
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
		data := edit(sent, []byte(text))
		sent += len(text)
		if _, err := conn.Write(data); err != nil || len(data) < len(text) {
			break
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.Copy(io.Discard, conn) // a close with unread data would be a reset
}

func (c conversation) size() int { return len(strings.Join(c.sends, "")) }

// cut returns an edit that ends what a server sends after n bytes.
func cut(n int) func(int, []byte) []byte {
	return func(sent int, data []byte) []byte { return data[:max(0, min(len(data), n-sent))] }
}

// flip returns an edit that changes the byte at an index.
func flip(at int, to byte) func(int, []byte) []byte {
	return func(sent int, data []byte) []byte {
		if i := at - sent; 0 <= i && i < len(data) {
			data[i] = to
		}
		return data
	}
}

// listenRaw starts a TCP server that calls serve with each connection.
func listenRaw(t *testing.T, serve func(net.Conn)) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

// TestHostileConversations cuts a conversation after each byte, changes bytes of it, and replaces it with
// garbage. An attempt may only be a Success if everything was sent, and never an error.
func TestHostileConversations(t *testing.T) {
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for _, c := range conversations {
		t.Run(c.plugin, func(t *testing.T) {
			loaded, err := host.Load(t.Context(), found(t, c.plugin))
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			var current func(net.Conn)
			target := listenRaw(t, func(conn net.Conn) { current(conn) })
			h, err := loaded.Prepare([]byte(c.config), target)
			if err != nil {
				t.Fatal(err)
			}
			defer probe.Release(h)
			attempt := func(name string, serve func(net.Conn)) probe.Outcome {
				t.Helper()
				current = serve
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				out, err := h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: patience}})
				if err != nil || len(out.Output) > 1000 || strings.Contains(out.Output, "deadline") {
					t.Errorf("%s: got %s %.300q, %v", name, out.Result, out.Output, err)
				}
				return out
			}
			c.cuts(t, attempt)
			c.changes(attempt)
			c.garbage(t, attempt)
		})
	}
}

// attempts makes an attempt at a server. name is its name in messages.
type attempts func(name string, serve func(net.Conn)) probe.Outcome

// cuts ends the conversation after each byte.
func (c conversation) cuts(t *testing.T, attempt attempts) {
	t.Helper()
	for n := range c.size() + 1 {
		want := probe.Failure
		if n >= c.size()-c.optional {
			want = probe.Success
		}
		if out := attempt(fmt.Sprintf("cut after %d bytes", n), func(conn net.Conn) { c.serve(conn, patience, cut(n)) }); out.Result != want {
			t.Errorf("cut after %d of %d bytes: got %s %q, want %s", n, c.size(), out.Result, out.Output, want)
		}
	}
}

// changes replaces each byte by values that often are limits of lengths.
func (c conversation) changes(attempt attempts) {
	for at := range c.size() {
		for _, to := range []byte{0, 0x7f, 0xff} {
			attempt(fmt.Sprintf("byte %d is %#x", at, to), func(conn net.Conn) { c.serve(conn, 20*time.Millisecond, flip(at, to)) })
		}
	}
}

// garbage sends random bytes, endless bytes and more than the plugin may read.
func (c conversation) garbage(t *testing.T, attempt attempts) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		noise := make([]byte, random.IntN(2000))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		serve := func(conn net.Conn) {
			_, _ = conn.Write(noise)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
		if out := attempt("garbage", serve); out.Result != probe.Failure {
			t.Errorf("garbage %q: got %s %q", noise, out.Result, out.Output)
		}
	}
	last := c.sends[len(c.sends)-1]
	for name, text := range map[string]string{"zeros": "\x00", "ones": "\xff", "letters": "a", "lines": "\r\n", "its last message": last, "its first message": c.sends[0]} {
		serve := func(conn net.Conn) {
			defer conn.Close()
			endless(text)(conn)
		}
		if out := attempt("endless "+name, serve); out.Result != probe.Failure && name != "its last message" && name != "its first message" {
			t.Errorf("endless %s: got %s %q", name, out.Result, out.Output)
		}
	}
}
