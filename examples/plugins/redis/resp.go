package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

const (
	maxReply = 256 << 10 // bytes
	maxLine  = 1 << 10
)

// client implements the part of RESP, the protocol of redis, that the check needs.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func newClient(conn net.Conn) *client {
	return &client{conn, bufio.NewReaderSize(conn, maxLine)}
}

// appendCommand appends a command to the commands of a request.
func appendCommand(b []byte, args ...string) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(len(args)), 10)
	for _, arg := range args {
		b = append(b, "\r\n$"...)
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
	}
	return append(b, "\r\n"...)
}

// send sends commands. The server answers each of them, in their order.
func (c *client) send(commands []byte) error {
	_, err := c.conn.Write(commands)
	return err
}

// refusal is an error reply of the server.
type refusal string

func (e refusal) Error() string { return string(e) }

// reply returns the next reply. An error reply is a refusal.
func (c *client) reply() (string, error) {
	line, err := c.line()
	if err != nil {
		return "", err
	}
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return "", refusal(line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 || n > maxReply {
			return "", fmt.Errorf("a reply of %.20s bytes", line[1:])
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, body); err != nil {
			return "", err
		}
		return string(body[:n]), nil
	default:
		return "", fmt.Errorf("%.40q is not a reply of redis", line)
	}
}

func (c *client) line() (string, error) {
	line, err := c.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return "", errors.New("the reply has a line without an end")
	case err == io.EOF:
		return "", errors.New("the server closed the connection")
	case err != nil:
		return "", err
	}
	text := strings.TrimSuffix(string(line), "\r\n")
	if text == "" {
		return "", errors.New("the reply is empty")
	}
	return text, nil
}
