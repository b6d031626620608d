package abi

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/daeace23/prober/probe"
)

// Room is the spare capacity, in bytes after a document, that makes [Request.Decode] faster.
const Room = 24

// ordered reads a request in the form of [AppendRequest]: with the fields in its order and without
// spaces. It rejects other forms, and [Request.Decode] then reads them with a scanner. The result is the
// same. Because branches and calls are slow in a Go guest, ordered has few of them. It takes a quarter of
// the scanner's time.
type ordered struct {
	data  []byte // the request, followed by [Room] zeros
	text  string // the request as a string
	pos   int    // current position, at most the length of text
	head  uint64 // the bytes at pos; the first one is xored with the byte before a field: '{' or ','
	empty int    // 1 until the current object has a field, then 0
	bad   bool   // the request was rejected
}

// inOrder reads a request, and returns false if it rejects the form. text is the request, and data is the
// request followed by [Room] zeros.
func (r *Request) inOrder(data []byte, text string) bool {
	s := ordered{data: data, text: text}
	s.begin(0)
	if s.consume(&keyABI) {
		r.ABI = int(s.number())
	}
	s.plugin(&r.Plugin)
	s.probe(&r.Probe)
	s.target(&r.Target)
	s.pod(&r.Pod)
	s.container(&r.Container)
	s.config(&r.Config)
	s.host(&r.Host)
	s.close()
	return !s.bad && s.pos == len(text)
}

func (s *ordered) plugin(p *Plugin) {
	s.open(&keyPlugin)
	if s.consume(&keyName) {
		p.Name = s.string()
	}
	if s.consume(&keyVersion) {
		p.Version = s.string()
	}
	if s.consume(&keyDigest) {
		p.Digest = s.string()
	}
	s.close()
}

func (s *ordered) probe(p *Probe) {
	s.open(&keyProbe)
	if s.consume(&keyKind) {
		p.Kind = probe.Kind(s.oneOf(keyKinds[:]))
	}
	if s.consume(&keyAttempt) {
		p.Attempt = int(s.number())
	}
	if s.consume(&keyPeriodMs) {
		p.PeriodMs = s.number()
	}
	if s.consume(&keyTimeoutMs) {
		p.TimeoutMs = s.number()
	}
	if s.consume(&keyFailureThreshold) {
		p.FailureThreshold = int(s.number())
	}
	if s.consume(&keyLastResult) {
		p.LastResult = probe.Result(s.oneOf(keyResults[:]))
	}
	s.close()
}

func (s *ordered) target(t *Target) {
	s.open(&keyTarget)
	if s.consume(&keyHost) {
		t.Host = s.string()
	}
	if s.consume(&keyIP) {
		t.IP = s.string()
	}
	if s.consume(&keyPort) {
		t.Port = int(s.number())
	}
	if s.consume(&keyUnix) {
		t.Unix = s.string()
	}
	s.close()
}

func (s *ordered) pod(p *Pod) {
	s.open(&keyPod)
	if s.consume(&keyNamespace) {
		p.Namespace = s.string()
	}
	if s.consume(&keyName) {
		p.Name = s.string()
	}
	if s.consume(&keyUID) {
		p.UID = s.string()
	}
	if s.consume(&keyLabels) {
		s.labels(p)
	}
	s.close()
}

func (s *ordered) labels(p *Pod) {
	p.Labels = make(map[string]string)
	s.expect('{')
	for another := true; another; another = s.another('}') {
		name := s.string()
		s.expect(':')
		p.Labels[name] = s.string()
	}
}

func (s *ordered) container(c *Container) {
	s.open(&keyContainer)
	if s.consume(&keyName) {
		c.Name = s.string()
	}
	if s.consume(&keyID) {
		c.ID = s.string()
	}
	if s.consume(&keyPorts) {
		s.expect('[')
		for another := true; another; another = s.another(']') {
			c.Ports = append(c.Ports, s.port())
		}
	}
	s.close()
}

func (s *ordered) port() (p probe.Port) {
	s.begin(s.pos)
	if s.consume(&keyName) {
		p.Name = s.string()
	}
	if s.consume(&keyPort) {
		p.Number = int(s.number())
	}
	if s.consume(&keyProtocol) {
		p.Protocol = s.string()
	}
	s.close()
	return p
}

func (s *ordered) config(to *[]byte) {
	if !s.consume(&keyConfig) {
		s.bad = true
		return
	}
	d := scanner{data: s.data[:len(s.text):len(s.text)], text: s.text, pos: s.pos, depth: 1}
	s.leave(&d, d.rawObject(to))
}

func (s *ordered) host(h *Host) {
	s.open(&keyHost)
	if s.consume(&keyVersion) {
		h.Version = s.string()
	}
	if s.consume(&keyFeatures) {
		s.expect('[')
		for another := true; another; another = s.another(']') {
			h.Features = append(h.Features, s.string())
		}
	}
	s.close()
}

// consume consumes the name of a field if it is next. It is small enough to be inlined.
func (s *ordered) consume(k *key) bool { return (s.head^k.words[0])&k.masks[0] == 0 && s.take(k) }

// take is the rest of consume, after the first eight bytes have matched.
func (s *ordered) take(k *key) bool {
	if (s.word(8)^k.words[1])&k.masks[1]|(s.word(16)^k.words[2])&k.masks[2] == 0 {
		s.pos += k.size
		s.empty = 0
		return true
	}
	return false
}

// open consumes the name of an object and moves to its first field.
func (s *ordered) open(k *key) {
	if !s.consume(k) {
		s.bad = true
	}
	s.begin(s.pos)
}

// begin moves to the first field of an object.
func (s *ordered) begin(pos int) {
	s.move(pos)
	s.head ^= ',' ^ '{'
	s.empty = 1
}

// close consumes the end of an object.
func (s *ordered) close() {
	end := &objectEnds[s.empty&1]
	if s.head&end.masks[0] != end.words[0] {
		s.bad = true
		return
	}
	s.empty = 0
	s.move(s.pos + end.size)
}

// move moves to the end of a value. It is small enough to be inlined.
func (s *ordered) move(pos int) {
	s.pos, s.head = pos, binary.LittleEndian.Uint64(s.data[pos:])^','
}

// oneOf consumes one of texts and returns its index.
func (s *ordered) oneOf(texts []key) int {
	first, second := s.word(0), s.word(8)
	for i := range texts {
		k := &texts[i]
		if (first^k.words[0])&k.masks[0]|(second^k.words[1])&k.masks[1] == 0 {
			s.move(s.pos + k.size)
			return i
		}
	}
	s.bad = true
	s.move(s.pos)
	return 0
}

// string consumes a string.
func (s *ordered) string() string {
	start := s.pos + 1
	for i := start; s.data[s.pos] == '"'; i += 8 {
		stop := special(binary.LittleEndian.Uint64(s.data[i:]))
		if stop == 0 {
			continue
		}
		end := i + bits.TrailingZeros64(stop)/8
		if s.data[end] != '"' {
			break
		}
		s.move(end + 1)
		return s.text[start:end]
	}
	d := scanner{data: s.data[:len(s.text)], text: s.text, pos: s.pos}
	text, err := d.str()
	s.leave(&d, err)
	return text
}

// number consumes an integer. Up to seven digits need no branch.
func (s *ordered) number() int64 {
	w := s.word(0)
	const tops = 0x8080808080808080
	other := ((w + 0x4646464646464646) | (w - 0x3030303030303030)) & tops // the first top bit marks the first byte that is not a digit
	n := bits.TrailingZeros64(other) / 8
	if n == 0 || n == 8 || w&0xff == '0' && n > 1 {
		return s.longNumber()
	}
	w <<= 64 - 8*n
	w = (w & 0x0f0f0f0f0f0f0f0f) * (1 + 10<<8) >> 8
	w = (w & 0x00ff00ff00ff00ff) * (1 + 100<<16) >> 16
	w = (w & 0x0000ffff0000ffff) * (1 + 10000<<32) >> 32
	s.move(s.pos + n)
	return int64(w)
}

func (s *ordered) longNumber() int64 {
	d := scanner{data: s.data[:len(s.text)], text: s.text, pos: s.pos}
	n, err := d.int()
	s.leave(&d, err)
	return n
}

// leave continues at the position of a scanner.
func (s *ordered) leave(d *scanner, err error) {
	s.bad = s.bad || err != nil
	s.move(d.pos)
}

// another consumes the byte after an item, and reports whether there is another item.
func (s *ordered) another(end byte) bool {
	if s.data[s.pos] == ',' {
		s.pos++
		return true
	}
	s.expect(end)
	return false
}

func (s *ordered) expect(c byte) {
	if s.data[s.pos] != c {
		s.bad = true
		return
	}
	s.move(s.pos + 1)
}

// word returns the eight bytes at an offset.
func (s *ordered) word(offset int) uint64 { return binary.LittleEndian.Uint64(s.data[s.pos+offset:]) }

// key is a text to compare, as 64-bit words. The key of a field has a zero byte before the name, because
// [ordered.head] clears that byte.
type key struct {
	words, masks [3]uint64
	size         int
}

func keyOf(text string) (k key) {
	for i := range len(text) {
		k.words[i/8] |= uint64(text[i]) << (i % 8 * 8)
		k.masks[i/8] |= 0xff << (i % 8 * 8)
	}
	k.size = len(text)
	return k
}

func textKey(text fmt.Stringer) key { return keyOf(`"` + text.String() + `"`) }

func fieldKey(name string) key { return keyOf("\x00\"" + name + `":`) }

// The keys of a request.
var (
	keyABI              = fieldKey("abi")
	keyPlugin           = fieldKey("plugin")
	keyProbe            = fieldKey("probe")
	keyTarget           = fieldKey("target")
	keyPod              = fieldKey("pod")
	keyContainer        = fieldKey("container")
	keyConfig           = fieldKey("config")
	keyHost             = fieldKey("host")
	keyName             = fieldKey("name")
	keyVersion          = fieldKey("version")
	keyDigest           = fieldKey("digest")
	keyKind             = fieldKey("kind")
	keyAttempt          = fieldKey("attempt")
	keyPeriodMs         = fieldKey("periodMs")
	keyTimeoutMs        = fieldKey("timeoutMs")
	keyFailureThreshold = fieldKey("failureThreshold")
	keyLastResult       = fieldKey("lastResult")
	keyIP               = fieldKey("ip")
	keyPort             = fieldKey("port")
	keyUnix             = fieldKey("unix")
	keyNamespace        = fieldKey("namespace")
	keyUID              = fieldKey("uid")
	keyLabels           = fieldKey("labels")
	keyID               = fieldKey("id")
	keyPorts            = fieldKey("ports")
	keyProtocol         = fieldKey("protocol")
	keyFeatures         = fieldKey("features")

	objectEnds = [...]key{keyOf(string([]byte{'}' ^ ','})), keyOf("\x00}")} // by [ordered.empty]
	keyKinds   = [...]key{textKey(probe.Liveness), textKey(probe.Readiness), textKey(probe.Startup)}
	keyResults = [...]key{textKey(probe.Unknown), textKey(probe.Success), textKey(probe.Warning), textKey(probe.Failure)}
)
