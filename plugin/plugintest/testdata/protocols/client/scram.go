package client

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const user, password = "probe", "pencil"

// postgres reads a message with one of the wanted types, and returns its body.
func (s *session) postgres(kind byte) ([]byte, error) {
	head, err := s.read(5)
	if err != nil {
		return nil, err
	}
	if head[0] != kind {
		return nil, fmt.Errorf("got the message %q, want %q", head[0], kind)
	}
	return s.read(int(binary.BigEndian.Uint32(head[1:])) - 4)
}

// authentication reads a message about authentication with a code, and returns the rest.
func (s *session) authentication(code byte) (string, error) {
	body, err := s.postgres('R')
	if err == nil && (len(body) < 4 || body[3] != code) {
		err = fmt.Errorf("authentication %x, want %d", body, code)
	}
	if err != nil {
		return "", err
	}
	return string(body[4:]), nil
}

// answer sends a message with the type p.
func (s *session) answer(parts ...[]byte) error {
	body := bytes.Join(parts, nil)
	return s.send([]byte("p"), u32(4+len(body)), body)
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// field returns a field of a message of SCRAM, such as r=….
func field(message, name string) string {
	for part := range strings.SplitSeq(message, ",") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

// scram logs in to PostgreSQL with SCRAM-SHA-256, and verifies the signature of the server.
func scram(s *session) (string, error) {
	startup := []byte("\x00\x03\x00\x00user\x00" + user + "\x00\x00")
	if err := s.send(u32(4+len(startup)), startup); err != nil {
		return "", err
	}
	if offers, err := s.authentication(10); err != nil || !strings.Contains(offers, "SCRAM-SHA-256\x00") {
		return "", fmt.Errorf("offers %q, %v", offers, err)
	}
	nonce := base64.RawStdEncoding.EncodeToString(random(18))
	bare := "n=,r=" + nonce
	if err := s.answer([]byte("SCRAM-SHA-256\x00"), u32(3+len(bare)), []byte("n,,"+bare)); err != nil {
		return "", err
	}
	first, err := s.authentication(11)
	if err != nil {
		return "", err
	}
	salt, _ := base64.StdEncoding.DecodeString(field(first, "s"))
	rounds, _ := strconv.Atoi(field(first, "i"))
	if !strings.HasPrefix(field(first, "r"), nonce) || len(salt) == 0 || rounds < 1 || rounds > 10_000 {
		return "", fmt.Errorf("the server begins with %q", first)
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	final := "c=biws,r=" + field(first, "r")
	message := bare + "," + first + "," + final
	key := sign(salted, "Client Key")
	stored := sha256.Sum256(key)
	for i, b := range sign(stored[:], message) {
		key[i] ^= b
	}
	if err := s.answer([]byte(final + ",p=" + base64.StdEncoding.EncodeToString(key))); err != nil {
		return "", err
	}
	last, err := s.authentication(12)
	if err != nil {
		return "", err
	}
	if last != "v="+base64.StdEncoding.EncodeToString(sign(sign(salted, "Server Key"), message)) {
		return "", errors.New("the signature of the server is wrong")
	}
	_, err = s.authentication(0)
	return "logged in", err
}
