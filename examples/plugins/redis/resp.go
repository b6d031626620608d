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

// do sends a command and returns its reply. An error reply is an error.
func (c *client) do(args ...string) (string, error) {
	b := strconv.AppendInt([]byte("*"), int64(len(args)), 10)
	for _, arg := range args {
		b = append(b, "\r\n$"...)
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
	}
	if _, err := c.conn.Write(append(b, "\r\n"...)); err != nil {
		return "", err
	}
	return c.reply()
}

func (c *client) reply() (string, error) {
	line, err := c.line()
	if err != nil {
		return "", err
	}
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return "", errors.New(line[1:])
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
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errors.New("the reply has a line without an end")
	}
	if err != nil {
		if err == io.EOF {
			err = errors.New("the server closed the connection")
		}
		return "", err
	}
	text := strings.TrimRight(string(line), "\r\n")
	if text == "" {
		return "", errors.New("the reply is empty")
	}
	return text, nil
}
