package client

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"
)

// stun asks for the address of the client, and verifies the integrity and the fingerprint of the answer.
func stun(s *session) (string, error) {
	id := random(12)
	a, err := s.datagram(20+12+24+8, []byte{0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42}, id)
	if err != nil {
		return "", err
	}
	if a[0] != 1 || a[1] != 1 || !bytes.Equal(a[8:20], id) || int(binary.BigEndian.Uint16(a[2:])) != len(a)-20 {
		return "", errors.New("not an answer of STUN")
	}
	signed := len(a) - 8 - 24
	mac := hmac.New(sha1.New, []byte("secret"))
	mac.Write(bytes.Join([][]byte{a[:2], u16(signed + 24 - 20), a[4:signed]}, nil))
	if !bytes.Equal(mac.Sum(nil), a[signed+4:signed+24]) {
		return "", errors.New("the integrity is wrong")
	}
	if crc32.ChecksumIEEE(a[:len(a)-8])^0x5354554e != binary.BigEndian.Uint32(a[len(a)-4:]) {
		return "", errors.New("the fingerprint is wrong")
	}
	ip := binary.BigEndian.Uint32(a[28:]) ^ 0x2112a442
	return fmt.Sprintf("mapped to %v", netip.AddrFrom4([4]byte(u32(int(ip))))), nil
}

// dns asks for the address of db.internal.
func dns(s *session) (string, error) {
	id := random(2)
	query := bytes.Join([][]byte{id, {1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, []byte("\x02db\x08internal\x00"), {0, 1, 0, 1}}, nil)
	a, err := s.datagram(len(query)+16, query)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(a[:2], id) || !bytes.Equal(a[12:len(query)], query[12:]) {
		return "", errors.New("an answer to another question")
	}
	return fmt.Sprint(netip.AddrFrom4([4]byte(a[len(a)-4:]))), nil
}

// radius logs a user in.
func radius(s *session) (string, error) {
	secret := []byte("secret")
	id, authenticator := random(1), random(16)
	pad := md5.Sum(append(secret, authenticator...))
	password := make([]byte, 16)
	copy(password, "pw")
	for i := range password {
		password[i] ^= pad[i]
	}
	a, err := s.datagram(20, []byte{1}, id, u16(20+7+18), authenticator, []byte("\x01\x07probe\x02\x12"), password)
	if err != nil {
		return "", err
	}
	if a[0] != 2 || a[1] != id[0] {
		return "", fmt.Errorf("code %d to request %d", a[0], a[1])
	}
	want := md5.Sum(bytes.Join([][]byte{a[:4], authenticator, a[20:], secret}, nil))
	if !bytes.Equal(a[4:20], want[:]) {
		return "", errors.New("the authenticator is wrong")
	}
	return string(a[22:]), nil
}

// snmp gets sysUpTime.
func snmp(s *session) (string, error) {
	id := append([]byte{0x40}, random(3)...) // positive, with four bytes
	name := []byte("\x06\x08\x2b\x06\x01\x02\x01\x01\x03\x00")
	pdu := bytes.Join([][]byte{{2, 4}, id, []byte("\x02\x01\x00\x02\x01\x00\x30\x0e\x30\x0c"), name, {5, 0}}, nil)
	head := []byte("\x02\x01\x01\x04\x06public\xa0")
	a, err := s.datagram(40, []byte{0x30, byte(len(head) + 1 + len(pdu))}, head, []byte{byte(len(pdu))}, pdu)
	if err != nil {
		return "", err
	}
	if int(a[1]) != len(a)-2 || a[13] != 0xa2 || int(a[14]) != len(a)-15 || !bytes.Equal(a[17:21], id) {
		return "", errors.New("not an answer to this request")
	}
	return fmt.Sprintf("up %d", binary.BigEndian.Uint32(a[len(a)-4:])/100), nil
}

// ntp asks for the time. What it sends as its time of transmission is random, for its privacy.
func ntp(s *session) (string, error) {
	cookie := random(8)
	a, err := s.datagram(48, []byte{0x23}, make([]byte, 39), cookie)
	if err != nil {
		return "", err
	}
	if a[0] != 0x24 || !bytes.Equal(a[24:32], cookie) {
		return "", errors.New("not an answer to this request")
	}
	at := time.Unix(int64(binary.BigEndian.Uint32(a[40:]))-2208988800, 0)
	if off := time.Since(at).Abs(); off > 2*time.Second {
		return "", fmt.Errorf("the time is off by %v", off)
	}
	return fmt.Sprintf("stratum %d", a[1]), nil
}
