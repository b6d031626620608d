package client

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"crypto/sha1"

	"github.com/daeace23/prober/sdk"
)

// websocket opens a WebSocket and sends a ping.
func websocket(s *session) (string, error) {
	key := base64.StdEncoding.EncodeToString(random(16))
	head := "GET /events HTTP/1.1\r\nHost: shop.internal\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"
	if err := s.send([]byte(head)); err != nil {
		return "", err
	}
	accept := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	accepted := false
	for line := "-"; line != ""; {
		var err error
		if line, err = s.line(); err != nil {
			return "", err
		}
		accepted = accepted || line == "Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(accept[:])
	}
	if !accepted {
		return "", errors.New("the server does not accept this key")
	}
	mask, payload := random(4), random(4)
	masked := make([]byte, 4)
	for i := range masked {
		masked[i] = mask[i] ^ payload[i]
	}
	if err := s.send([]byte{0x89, 0x84}, mask, masked); err != nil {
		return "", err
	}
	pong, err := s.read(6)
	if err == nil && !bytes.Equal(pong, append([]byte{0x8a, 4}, payload...)) {
		err = fmt.Errorf("got the frame %x to the ping %x", pong, payload)
	}
	return "pong", err
}

// ssh reads the banner and the algorithms of a server.
func ssh(s *session) (string, error) {
	if err := s.send([]byte("SSH-2.0-prober\r\n")); err != nil {
		return "", err
	}
	banner, err := s.line()
	if err != nil || !strings.HasPrefix(banner, "SSH-2.0-") {
		return "", fmt.Errorf("banner %q, %v", banner, err)
	}
	payload := bytes.Join([][]byte{{20}, random(16), u32(17), []byte("curve25519-sha256"), make([]byte, 9*4+1+4)}, nil)
	padding := random(4 + 7 - (len(payload)+5+4+7)%8)
	if err := s.send(u32(1+len(payload)+len(padding)), []byte{byte(len(padding))}, payload, padding); err != nil {
		return "", err
	}
	size, err := s.read(4)
	if err != nil {
		return "", err
	}
	packet, err := s.read(int(binary.BigEndian.Uint32(size)))
	if err != nil {
		return "", err
	}
	if len(packet) < 26 || packet[1] != 20 || len(packet) < 22+int(binary.BigEndian.Uint32(packet[18:])) {
		return "", errors.New("no KEXINIT")
	}
	return banner + " " + string(packet[22:22+binary.BigEndian.Uint32(packet[18:])]), nil
}

// kafka asks for the API versions of a broker.
func kafka(s *session) (string, error) {
	id := random(4)
	request := bytes.Join([][]byte{{0, 18, 0, 0}, id, []byte("\x00\x06prober")}, nil)
	if err := s.send(u32(len(request)), request); err != nil {
		return "", err
	}
	size, err := s.read(4)
	if err != nil {
		return "", err
	}
	a, err := s.read(int(binary.BigEndian.Uint32(size)))
	if err == nil && (len(a) < 10 || !bytes.Equal(a[:4], id)) {
		err = errors.New("an answer to another request")
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d APIs", binary.BigEndian.Uint32(a[6:])), nil
}

// ldap binds anonymously.
func ldap(s *session) (string, error) {
	id := append([]byte{0x40}, random(3)...)
	if err := s.send([]byte{0x30, 6 + 9, 2, 4}, id, []byte("\x60\x07\x02\x01\x03\x04\x00\x80\x00")); err != nil {
		return "", err
	}
	head, err := s.read(2)
	if err != nil {
		return "", err
	}
	a, err := s.read(int(head[1]))
	if err == nil && (len(a) < 11 || !bytes.Equal(a[2:6], id) || a[6] != 0x61) {
		err = errors.New("not the answer to this bind")
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("result code %d", a[10]), nil
}

// imap asks for capabilities within TLS.
func imap(s *session) (string, error) {
	if greeting, err := s.line(); err != nil || !strings.HasPrefix(greeting, "* OK") {
		return "", fmt.Errorf("greeting %q, %v", greeting, err)
	}
	command := func(text string) (lines []string, err error) {
		tag := hex.EncodeToString(random(4))
		if err := s.send([]byte(tag + " " + text + "\r\n")); err != nil {
			return nil, err
		}
		for {
			line, err := s.line()
			if err != nil {
				return nil, err
			}
			if rest, ok := strings.CutPrefix(line, tag+" OK"); ok {
				return append(lines, rest), nil
			}
			lines = append(lines, line)
		}
	}
	if _, err := command("STARTTLS"); err != nil {
		return "", err
	}
	secured, err := sdk.StartTLS(s.ctx, s.Conn, sdk.TLSOptions{})
	if err != nil {
		return "", err
	}
	s.Conn = secured
	s.in.Reset(secured)
	lines, err := command("CAPABILITY")
	if err != nil {
		return "", err
	}
	return lines[0], nil
}

// mqtt connects to a broker and subscribes to a topic.
func mqtt(s *session) (string, error) {
	name := hex.EncodeToString(random(8))
	connect := bytes.Join([][]byte{[]byte("\x00\x04MQTT\x04\x02\x00\x3c"), u16(len(name)), []byte(name)}, nil)
	if err := s.send([]byte{0x10, byte(len(connect))}, connect); err != nil {
		return "", err
	}
	if a, err := s.read(4); err != nil || !bytes.Equal(a, []byte{0x20, 2, 0, 0}) {
		return "", fmt.Errorf("CONNACK %x, %v", a, err)
	}
	id := random(2)
	if err := s.send([]byte{0x82, 2 + 2 + 6 + 1}, id, []byte("\x00\x06health\x00")); err != nil {
		return "", err
	}
	a, err := s.read(5)
	if err == nil && !bytes.Equal(a, []byte{0x90, 3, id[0], id[1], 0}) {
		err = fmt.Errorf("SUBACK %x to %x", a, id)
	}
	return "subscribed", err
}
