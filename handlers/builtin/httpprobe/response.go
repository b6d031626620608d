package httpprobe

import (
	"bytes"
	"errors"

	"github.com/daeace23/prober/probe"
)

// response parses one HTTP/1.0 or 1.1 response while its bytes arrive. It supports only ordinary forms.
// For all others, parsing returns errOdd, and net/http continues. errOdd is returned at the end of the
// unusual line, as soon as net/http could answer.
type response struct {
	status  int
	length  int  // Content-Length; -1 if the header is missing
	chunked bool // Transfer-Encoding
	http10  bool
	closing bool // there is a Connection header other than keep-alive
	body    int  // offset of the body; 0 until the head is complete
	next    int  // offset of the next line or chunk
	decoded int  // number of body bytes in the chunks before next
	end     int  // offset of the end of the response; 0 until it is known
}

var (
	// errShort means that a response is not complete.
	errShort = errors.New("more bytes are needed")
	// errOdd means that net/http must parse the response.
	errOdd = errors.New("not an ordinary response")
)

// parse parses received, which must begin with the bytes of the previous call. ended means that nothing
// follows. parse returns nil when the response is complete, or has [probe.MaxOutput] bytes of its body.
func (r *response) parse(received []byte, ended bool) error {
	err := r.parseHead(received)
	if err == nil {
		err = r.parseBody(received, ended)
	}
	if err == errShort && ended {
		return errOdd
	}
	return err
}

// parseHead parses the lines up to the empty line.
func (r *response) parseHead(received []byte) error {
	for r.body == 0 {
		end := bytes.IndexByte(received[r.next:], '\n')
		if end < 0 {
			return errShort
		}
		line, ok := bytes.CutSuffix(received[r.next:r.next+end], []byte{'\r'})
		switch {
		case !ok || !isPrintable(line):
			return errOdd
		case r.status == 0:
			ok = r.parseStatus(line)
		case len(line) > 0:
			ok = r.parseHeader(line)
		default:
			r.body = r.next + end + 1
		}
		if !ok {
			return errOdd
		}
		r.next += end + 1
	}
	return nil
}

// parseStatus parses a line such as "HTTP/1.1 200 OK". It does not support informational responses.
func (r *response) parseStatus(line []byte) (ok bool) {
	const begin, size = "HTTP/1.", len("HTTP/1.1 200")
	if len(line) < size || string(line[:len(begin)]) != begin || line[8] != ' ' || len(line) > size && line[size] != ' ' {
		return false
	}
	r.http10, r.length = line[7] == '0', -1
	r.status, ok = parseDecimal(line[9:size])
	return ok && r.status >= 200 && (r.http10 || line[7] == '1')
}

var (
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
	location         = []byte("Location")
	trailer          = []byte("Trailer")
	connection       = []byte("Connection")
	keepAlive        = []byte("keep-alive")
	chunked          = []byte("chunked")
)

// parseHeader parses a line such as "Content-Length: 2".
func (r *response) parseHeader(line []byte) (ok bool) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !isToken(name) {
		return false // a folded line begins with a space
	}
	switch value = bytes.Trim(value, " \t"); {
	case bytes.EqualFold(name, contentLength):
		if r.length >= 0 {
			return false
		}
		r.length, ok = parseDecimal(value)
		return ok
	case bytes.EqualFold(name, transferEncoding):
		if r.chunked || r.http10 {
			return false
		}
		r.chunked = true
		return bytes.EqualFold(value, chunked)
	case bytes.EqualFold(name, connection):
		r.closing = r.closing || !bytes.EqualFold(value, keepAlive)
		return true
	case bytes.EqualFold(name, location):
		return r.status < 300 || r.status > 399 // perhaps a redirect to follow
	default:
		return !bytes.EqualFold(name, trailer)
	}
}

// parseBody checks whether the body is complete.
func (r *response) parseBody(received []byte, ended bool) error {
	have := len(received) - r.body
	switch {
	case r.chunked && r.length >= 0:
		return errOdd
	case r.status == 204 || r.status == 304: // have no body, regardless of their headers
		r.length, r.chunked = 0, false
	case r.chunked:
		return r.parseChunks(received)
	case r.length < 0 && ended:
		r.length = have
		return nil
	}
	if r.length >= 0 {
		r.end = r.body + r.length
	}
	if have >= probe.MaxOutput || r.length >= 0 && have >= r.length {
		return nil
	}
	return errShort
}

// parseChunks checks whether all chunks have arrived. It does not support extensions, trailers, and bodies
// that are longer than the output.
func (r *response) parseChunks(received []byte) error {
	const digits = 7 // maximum number of digits of a size
	for {
		rest := received[r.next:]
		line, rest, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok && len(line) <= digits+len("\r") {
			return errShort
		}
		line, ok = bytes.CutSuffix(line, []byte{'\r'})
		size, isHex := parseHex(line)
		if !ok || len(line) > digits || !isHex || r.decoded+size >= probe.MaxOutput {
			return errOdd
		}
		if len(rest) < size+len("\r\n") {
			return errShort
		}
		if rest[size] != '\r' || rest[size+1] != '\n' {
			return errOdd
		}
		if size == 0 {
			r.end = r.next + len(line) + 2*len("\r\n")
			return nil
		}
		r.decoded += size
		r.next += len(line) + len("\r\n") + size + len("\r\n")
	}
}

// content returns the body of a complete response, at most [probe.MaxOutput] bytes. It joins the chunks in
// place, and so changes received.
func (r *response) content(received []byte) []byte {
	rest := received[r.body:]
	if !r.chunked {
		n := min(len(rest), probe.MaxOutput)
		if r.length >= 0 {
			n = min(n, r.length)
		}
		return rest[:n]
	}
	body := rest[:0]
	for len(body) < r.decoded {
		line, data, _ := bytes.Cut(rest, []byte{'\n'})
		size, _ := parseHex(line[:len(line)-1])
		body, rest = append(body, data[:size]...), data[size+len("\r\n"):]
	}
	return body
}

// parseDecimal parses digits that fit into 32 bits.
func parseDecimal[T string | []byte](text T) (n int, ok bool) {
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, 0 < len(text) && len(text) <= 9
}

// parseHex parses up to seven hexadecimal digits at the beginning of text.
func parseHex(text []byte) (n int, ok bool) {
	for _, c := range text[:min(len(text), 7)] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | int(c)
	}
	return n, len(text) > 0
}

// isPrintable reports whether line has only printable ASCII and tabs.
func isPrintable(line []byte) bool {
	for _, c := range line {
		if (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// isToken reports whether text is a token of RFC 9110, the form of header names.
func isToken[T string | []byte](text T) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case c == '!' || '#' <= c && c <= '\'' || c == '*' || c == '+' || c == '-' || c == '.' || '^' <= c && c <= '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return len(text) > 0
}
