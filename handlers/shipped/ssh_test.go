package shipped_test

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/daeace23/prober/probe"
)

// sshStrings returns the parts as strings of SSH.
func sshStrings[T string | []byte](parts ...T) []byte {
	var out []byte
	for _, p := range parts {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
	}
	return out
}

// sshPacket returns a packet of SSH without encryption.
func sshPacket(payload []byte) []byte {
	padding := 4 + (8-(len(payload)+9)%8)%8
	out := binary.BigEndian.AppendUint32(nil, uint32(len(payload)+1+padding))
	return append(append(append(out, byte(padding)), payload...), make([]byte, padding)...)
}

func readSSHPacket(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[:])-1)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	return rest[:len(rest)-int(head[4])], nil
}

// sshServer is a server up to its host key.
type sshServer struct {
	key        ed25519.PrivateKey
	signs      ed25519.PrivateKey                         // if not nil, signs in place of key
	exchanges  string                                     // of the key exchange, instead of curve25519-sha256
	hostKeys   string                                     // algorithms of host keys, instead of ssh-ed25519
	point      []byte                                     // of the key exchange, instead of a new one
	edit       func(reply []byte) []byte                  // changes the payload of the last answer
	instead    func(kind byte, payload []byte) (b []byte) // replaces the payload of a message if it is not nil
	clientSent []byte                                     // the last message of the client
}

const sshIdentification = "SSH-2.0-OpenSSH_9.2p1 Debian-2"

func (s *sshServer) blob() []byte {
	return sshStrings("ssh-ed25519", string(s.key.Public().(ed25519.PublicKey)))
}

func (s *sshServer) fingerprint() string {
	sum := sha256.Sum256(s.blob())
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func (s *sshServer) proposal() []byte {
	exchanges, hostKeys := s.exchanges, s.hostKeys
	if exchanges == "" {
		exchanges = "sntrup761x25519-sha512@openssh.com,curve25519-sha256"
	}
	if hostKeys == "" {
		hostKeys = "rsa-sha2-512,ssh-ed25519"
	}
	lists := sshStrings(exchanges, hostKeys, "aes128-ctr", "aes128-ctr", "hmac-sha2-256", "hmac-sha2-256", "none", "none", "", "")
	return append(append(append([]byte{20}, make([]byte, 16)...), lists...), 0, 0, 0, 0, 0)
}

// serve returns an error if the client does not follow the protocol.
func (s *sshServer) serve(conn net.Conn) error {
	defer conn.Close()
	r := bufio.NewReader(conn)
	send := func(payload []byte) {
		if s.instead != nil {
			if other := s.instead(payload[0], payload); other != nil {
				payload = other
			}
		}
		_, _ = conn.Write(sshPacket(payload))
	}
	fmt.Fprintf(conn, "%s\r\n", sshIdentification)
	client, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	ours := s.proposal()
	send(ours)
	theirs, err := readSSHPacket(r)
	if err != nil {
		return err
	}
	initial, err := readSSHPacket(r)
	if err != nil {
		return err
	}
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	peer, err := ecdh.X25519().NewPublicKey(initial[5:])
	if err != nil {
		return err
	}
	shared, err := own.ECDH(peer)
	if err != nil {
		return err
	}
	point := own.PublicKey().Bytes()
	if s.point != nil {
		point = s.point
	}
	shared = bytes.TrimLeft(shared, "\x00")
	if shared[0] > 127 {
		shared = append([]byte{0}, shared...)
	}
	hash := sha256.Sum256(sshStrings([]byte(strings.TrimRight(client, "\r\n")), []byte(sshIdentification), theirs, ours, s.blob(), initial[5:], point, shared))
	signs := s.key
	if s.signs != nil {
		signs = s.signs
	}
	signature := sshStrings("ssh-ed25519", string(ed25519.Sign(signs, hash[:])))
	reply := append([]byte{31}, sshStrings(s.blob(), point, signature)...)
	if s.edit != nil {
		reply = s.edit(reply)
	}
	send([]byte{2, 0, 0, 0, 0}) // to be ignored
	send(reply)
	s.clientSent, err = readSSHPacket(r)
	return err
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &sshServer{key: key}
}

// trySSH makes an attempt, which must have a verdict.
func trySSH(t *testing.T, h probe.Handler, target probe.Target) probe.Outcome {
	t.Helper()
	out, err := again(t, h, target, patience)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSSHHostKey(t *testing.T) {
	p := load(t, "ssh")
	for range 3 { // new keys each time
		s := newSSHServer(t)
		ended := make(chan error, 1)
		target := listenRaw(t, func(conn net.Conn) { ended <- s.serve(conn) })
		out := trySSH(t, bind(t, p, fmt.Sprintf(`{"hostKey":%q,"software":"OpenSSH_"}`, s.fingerprint()), target), target)
		if want := sshIdentification + ", ssh-ed25519 " + s.fingerprint(); out.Result != probe.Success || out.Output != want {
			t.Errorf("got %s %q, want %q", out.Result, out.Output, want)
		}
		if err := <-ended; err != nil || s.clientSent[0] != 1 {
			t.Errorf("the client ended with %v, %q", err, s.clientSent)
		}
	}
}

func TestSSHWrongHostKey(t *testing.T) {
	p := load(t, "ssh")
	known := newSSHServer(t)
	for _, c := range []struct {
		name   string
		change func(s *sshServer)
		config string // besides hostKey
		want   string
	}{
		{"another key", func(s *sshServer) { s.key = newSSHServer(t).key }, "", "the host key is ssh-ed25519 SHA256:"},
		{"the key without its private key", func(s *sshServer) { s.signs = newSSHServer(t).key }, "", "but the signature of the server is wrong"},
		{"point of low order", func(s *sshServer) { s.point = make([]byte, 32) }, "", "not SSH: a point of low order"},
		{"short point", func(s *sshServer) { s.point = make([]byte, 31) }, "", "not SSH: a malformed answer"},
		{"more than an answer", func(s *sshServer) { s.edit = func(b []byte) []byte { return append(b, 0) } }, "", "not SSH: a malformed answer"},
		{"other key exchanges", func(s *sshServer) { s.exchanges = "diffie-hellman-group14-sha256" }, "", "the server does not offer the key exchange curve25519-sha256, but diffie-hellman-group14-sha256"},
		{"other host keys", func(s *sshServer) { s.hostKeys = "rsa-sha2-512" }, "", "the server has no host key of ssh-ed25519, but of rsa-sha2-512"},
		{"key of another type", func(s *sshServer) { s.hostKeys = "rsa-sha2-512" }, `,"hostKeyType":"rsa"`, `a host key of "ssh-ed25519", want "ssh-rsa"`},
		{"lists that end early", func(s *sshServer) {
			s.instead = func(kind byte, payload []byte) []byte {
				if kind == 20 {
					return payload[:30]
				}
				return nil
			}
		}, "", "not SSH: malformed lists of algorithms"},
		{"disconnect", func(s *sshServer) {
			s.instead = func(kind byte, _ []byte) []byte {
				if kind == 20 {
					return append([]byte{1, 0, 0, 0, 12}, sshStrings("Too many connections", "")...)
				}
				return nil
			}
		}, "", "the key exchange: the server disconnects: Too many connections (reason 12)"},
		{"another message", func(s *sshServer) {
			s.instead = func(kind byte, _ []byte) []byte { return []byte{21} }
		}, "", "the key exchange: not SSH: it sent message 21, want 20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sshServer{key: known.key}
			c.change(s)
			target := listenRaw(t, func(conn net.Conn) { _ = s.serve(conn) })
			out := trySSH(t, bind(t, p, fmt.Sprintf(`{"hostKey":%q%s}`, known.fingerprint(), c.config), target), target)
			if out.Result != probe.Failure || !strings.Contains(out.Output, c.want) {
				t.Errorf("got %s %q, want %q in it", out.Result, out.Output, c.want)
			}
		})
	}
}

// TestSSHChangedReply changes bytes of the last answer of a server. None of them may be a Success.
func TestSSHChangedReply(t *testing.T) {
	p := load(t, "ssh")
	s := newSSHServer(t)
	target := listenRaw(t, func(conn net.Conn) { _ = s.serve(conn) })
	h := bind(t, p, fmt.Sprintf(`{"hostKey":%q}`, s.fingerprint()), target)
	size := len(s.blob()) + 32 + 4 + 11 + 4 + 64 + 12 + 1
	for at := 1; at < size; at += 7 {
		s.edit = func(reply []byte) []byte {
			if len(reply) != size {
				t.Errorf("the answer has %d bytes, want %d", len(reply), size)
			}
			reply[at] ^= 0x10
			return reply
		}
		if out := trySSH(t, h, target); out.Result != probe.Failure || len(out.Output) > 1000 {
			t.Errorf("byte %d: got %s %q", at, out.Result, out.Output)
		}
	}
}
