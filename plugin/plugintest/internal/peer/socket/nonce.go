package socket

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
)

// nonces are the parts of a recorded conversation that the plugin has generated at random, and that its
// peer has sent back.
type nonces struct {
	received map[int][]captured // by the index of the event in which the plugin sends them
	sent     map[int][]captured // by the index of the event in which the peer sends them
}

// Limits of a search, which compares each nonce with each message.
const (
	minNonce  = 2   // bytes
	maxNonces = 256 // reads of random bytes
)

// findNonces finds random bytes, as they are or encoded, in messages of both sides.
func findNonces(c *capture.Summary, random [][]byte) nonces {
	found := nonces{make(map[int][]captured), make(map[int][]captured)}
	count := 0
	for _, read := range random[:min(len(random), maxNonces)] {
		if len(read) < minNonce {
			continue
		}
		for _, form := range forms(read) {
			if found.add(c, form, fmt.Sprintf("nonce%d", count+1)) {
				count++
				break
			}
		}
	}
	return found
}

// forms returns random bytes as plugins write them.
func forms(read []byte) [][]byte {
	lower := []byte(hex.EncodeToString(read))
	all := [][]byte{read, lower, bytes.ToUpper(lower)}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		all = append(all, []byte(e.EncodeToString(read)))
	}
	return all
}

// add adds the first message of the plugin that has the nonce, and all later messages of the peer that do. It
// reports whether both exist.
func (f *nonces) add(c *capture.Summary, nonce []byte, name string) bool {
	for i, e := range c.Events {
		at := bytes.Index(e.Data, nonce)
		if e.Kind != capture.Sent || at < 0 || recv(c, i).Exact == nil {
			continue
		}
		if overlaps(f.received[i], at, at+len(nonce)) || !f.addAnswers(c, i, nonce, name) {
			return false
		}
		f.received[i] = inserted(f.received[i], captured{at, at + len(nonce), name})
		return true
	}
	return false
}

// addAnswers adds the messages of the peer behind the event i that have the nonce.
func (f *nonces) addAnswers(c *capture.Summary, i int, nonce []byte, name string) (ok bool) {
	for j := i + 1; j < len(c.Events); j++ {
		e := c.Events[j]
		for from := 0; e.Kind == capture.Received; {
			at := bytes.Index(e.Data[from:], nonce)
			if at < 0 {
				break
			}
			at += from
			if from = at + len(nonce); !overlaps(f.sent[j], at, from) {
				f.sent[j] = inserted(f.sent[j], captured{at, from, name})
				ok = true
			}
		}
	}
	return ok
}

func overlaps(all []captured, from, to int) bool {
	return slices.ContainsFunc(all, func(c captured) bool { return from < c.to && c.from < to })
}

func inserted(all []captured, one captured) []captured {
	at, _ := slices.BinarySearchFunc(all, one, func(a, b captured) int { return a.from - b.from })
	return slices.Insert(all, at, one)
}

// receive returns the steps that receive an event of the plugin: one, or several around its nonces.
func (f *nonces) receive(c *capture.Summary, i int) (steps []Step) {
	data, at := c.Events[i].Data, 0
	if len(f.received[i]) == 0 {
		return []Step{{Recv: recv(c, i)}}
	}
	exactly := func(part []byte) {
		if len(part) > 0 {
			steps = append(steps, Step{Recv: &Recv{Exact: &Message{data: part}}})
		}
	}
	for _, n := range f.received[i] {
		exactly(data[at:n.from])
		steps = append(steps, Step{Recv: &Recv{Length: n.to - n.from, As: n.name}})
		at = n.to
	}
	exactly(data[at:])
	return steps
}
