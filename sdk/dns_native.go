//go:build !wasip1

package sdk

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/dnswire"
)

const (
	dnsRounds   = 2               // rounds over all servers, because datagrams may be lost
	dnsPatience = 2 * time.Second // timeout for a server in a round
)

// LookupDNS queries a DNS server. It returns an error if no server answers. It needs the capability "dns".
func LookupDNS(ctx context.Context, q DNSQuery) (DNSAnswer, error) {
	start := time.Now()
	h := hostOf(ctx)
	servers, err := h.dnsServers(q.Server)
	if err != nil {
		return DNSAnswer{}, fmt.Errorf("dns: %w", err)
	}
	question, err := dnswire.NewQuestion(q.Name, q.Type, uint16(rand.Uint32()))
	if err != nil {
		return DNSAnswer{}, fmt.Errorf("dns: %w", err)
	}
	var answer DNSAnswer
	tries := slices.Repeat(servers, dnsRounds)
	for i, server := range tries {
		if answer, err = h.ask(ctx, server, &question, len(tries)-i); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return DNSAnswer{}, fmt.Errorf("dns: %s %s: %w", cmp.Or(q.Type, "A"), q.Name, cmp.Or(ctx.Err(), err))
	}
	answer.Took = time.Since(start)
	return answer, nil
}

// dnsServers returns the servers to query.
func (h Host) dnsServers(named string) ([]string, error) {
	switch {
	case named == "target" && h.Target.Host == "":
		return nil, errors.New("the probe's target has no host")
	case named == "target":
		return []string{net.JoinHostPort(h.Target.Host, strconv.Itoa(h.Target.Port))}, nil
	case named != "":
		if _, _, err := net.SplitHostPort(named); err != nil {
			named = net.JoinHostPort(strings.Trim(named, "[]"), "53")
		}
		return []string{named}, nil
	case h.DNSServers != nil:
		return h.DNSServers, nil
	}
	var servers []string
	text, _ := os.ReadFile("/etc/resolv.conf") // without the file, the default is 127.0.0.1
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, net.JoinHostPort(fields[1], "53"))
		}
	}
	if servers == nil {
		servers = []string{"127.0.0.1:53"}
	}
	return servers, nil
}

// ask queries one server over UDP, and over TCP if the answer is truncated. It takes at most 1/shares of
// the remaining time.
func (h Host) ask(ctx context.Context, server string, question *dnswire.Question, shares int) (DNSAnswer, error) {
	patience := dnsPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/time.Duration(shares))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, cut, err := h.exchange(ctx, "udp", server, question)
	if err == nil && cut {
		answer, _, err = h.exchange(ctx, "tcp", server, question)
	}
	answer.Server = server
	return answer, err
}

func (h Host) exchange(ctx context.Context, network, server string, question *dnswire.Question) (a DNSAnswer, cut bool, err error) {
	conn, err := h.dial(ctx, nil, network, server)
	if err != nil {
		return a, false, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	sent := question.Pack(false)
	if network == "tcp" {
		sent = dnswire.Framed(sent)
	}
	if _, err := conn.Write(sent); err != nil {
		return a, false, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := readMessage(conn, network, buf)
		if err != nil {
			return a, false, cmp.Or(ctx.Err(), err)
		}
		got, err := question.Read(buf[:n], network == "tcp")
		if err == nil {
			return answerOf(got), got.Truncated, nil
		}
		if err != dnswire.ErrStray {
			return a, false, err
		}
	}
}

func answerOf(got dnswire.Answer) DNSAnswer {
	a := DNSAnswer{RCode: dnswire.CodeName(got.Code)}
	for _, r := range got.Records {
		a.Answers = append(a.Answers, DNSRecord(r))
	}
	return a
}

func readMessage(conn net.Conn, network string, buf []byte) (int, error) {
	if network == "udp" {
		return conn.Read(buf)
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return 0, err
	}
	return io.ReadFull(conn, buf[:binary.BigEndian.Uint16(buf)])
}
