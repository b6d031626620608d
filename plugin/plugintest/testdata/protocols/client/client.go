// Package client has small clients of twelve protocols. Each takes what differs from attempt to attempt
// from crypto/rand, and verifies that the server answers to it. protocols_test.yaml has the servers.
package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// session is one conversation with a server.
type session struct {
	net.Conn
	ctx context.Context
	in  *bufio.Reader
}

// talks are the clients. Each returns a text about the answer.
var talks = map[string]struct {
	network string
	talk    func(s *session) (string, error)
}{
	"websocket": {"tcp", websocket}, "scram": {"tcp", scram}, "ssh": {"tcp", ssh}, "stun": {"udp", stun}, "dns": {"udp", dns}, "radius": {"udp", radius},
	"snmp": {"udp", snmp}, "kafka": {"tcp", kafka}, "ldap": {"tcp", ldap}, "imap": {"tcp", imap}, "ntp": {"udp", ntp}, "mqtt": {"tcp", mqtt},
}

// Probe talks the protocol that the config names.
func Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	name := r.Config.String("protocol", "stun")
	known, ok := talks[name]
	if !ok {
		return probe.Outcome{}, fmt.Errorf("protocol: %q is unknown", name)
	}
	conn, err := sdk.Dial(ctx, known.network, r.Addr())
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	text, err := known.talk(&session{conn, ctx, bufio.NewReader(conn)})
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("%s", text), nil
}

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// send writes the parts as one message.
func (s *session) send(parts ...[]byte) error {
	_, err := s.Write(bytes.Join(parts, nil))
	return err
}

// read reads n bytes.
func (s *session) read(n int) ([]byte, error) {
	if n < 0 || n > 1<<16 {
		return nil, fmt.Errorf("the server sends a message of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(s.in, b)
	return b, err
}

// datagram sends a message and returns the answer, which has at least least bytes.
func (s *session) datagram(least int, parts ...[]byte) ([]byte, error) {
	if err := s.send(parts...); err != nil {
		return nil, err
	}
	b := make([]byte, 1500)
	n, err := s.Read(b)
	if err == nil && n < least {
		err = fmt.Errorf("the answer has %d bytes", n)
	}
	return b[:n], err
}

// line reads a line without its end.
func (s *session) line() (string, error) {
	text, err := s.in.ReadString('\n')
	return string(bytes.TrimRight([]byte(text), "\r\n")), err
}

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
func u32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
