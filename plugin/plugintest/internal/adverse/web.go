package adverse

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// exchange is an item of host.http with a reply.
type exchange struct {
	index  int
	status int
	body   []byte
	known  bool // body has a form that this package knows
	slowly bool // byte by byte
}

// addExchange adds the variants of an item of host.http.
func (p *Plan) addExchange(index int, n *yamlpos.Node) {
	if yamlpos.Field(n, "behaviour") != nil {
		return
	}
	x := &exchange{index: index, status: http.StatusOK, known: true}
	if reply := yamlpos.Field(n, "reply"); reply != nil {
		if status := yamlpos.Field(reply, "status"); status != nil {
			x.status, _ = strconv.Atoi(status.Value)
		}
		x.slowly = yamlpos.Field(reply, "every") != nil
		x.body, x.known = body(yamlpos.Field(reply, "body"))
	}
	stream := Stream{
		Name: fmt.Sprintf("host.http[%d]", index), Ends: true, Broken: behaviour("http", index, "reset"),
		Empty: x.reply("body", fixed(nil)),
	}
	for _, n := range x.cuts() {
		stream.Stalls = append(stream.Stalls, x.cut(n, "half-open"))
	}
	stream.Stalls = append(stream.Stalls, x.cut(len(x.body), "half-open"))
	s := len(p.Streams)
	p.Streams, p.exchanges[s] = append(p.Streams, stream), x
	add := func(v Variant) {
		v.Stream = s
		p.Variants = append(p.Variants, v)
	}
	x.addReplies(add)
	x.addBodies(add)
	for _, b := range []string{"refuse", "reset", "half-open", "timeout", "garbage"} {
		add(Variant{Family: family(b), Point: Header, What: "the server has the behaviour " + b, Rule: NoSuccess, Edit: behaviour("http", index, b)})
	}
}

// body returns the bytes of a field body. ok is false if it has an unknown form.
func body(n *yamlpos.Node) (data []byte, ok bool) {
	if n == nil || n.Kind == yamlpos.Scalar {
		return []byte(valueOf(n)), true
	}
	if digits := yamlpos.Field(n, "hex"); digits != nil {
		data, err := hex.DecodeString(strings.Join(strings.Fields(digits.Value), ""))
		return data, err == nil
	}
	if text := yamlpos.Field(n, "text"); text != nil {
		return []byte(text.Value), true
	}
	doc := yamlpos.Field(n, "json")
	var d yamlpos.Decoder
	if doc != nil {
		d.JSON(&data)(doc, "")
	}
	return data, doc != nil && d.Err() == nil
}

func valueOf(n *yamlpos.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// reply returns an edit that sets a field of the reply. A nil value removes the field.
func (x *exchange) reply(name string, value func() *yamlpos.Node) Edit {
	return at("http", x.index, func(n *yamlpos.Node) { testfile.SetField(replyOf(n), name, value()) })
}

// replyOf returns the reply of an item of host.http, which it adds if there is none.
func replyOf(n *yamlpos.Node) *yamlpos.Node {
	reply := yamlpos.Field(n, "reply")
	if reply == nil {
		reply = &yamlpos.Node{Kind: yamlpos.Mapping, Style: flow}
		testfile.SetField(n, "reply", reply)
	}
	return reply
}

// fixed returns a function that returns a copy of value, or nil.
func fixed(value *yamlpos.Node) func() *yamlpos.Node {
	return func() *yamlpos.Node {
		if value == nil {
			return nil
		}
		return testfile.Clone(value)
	}
}

// content returns a field body.
func content(data []byte) *yamlpos.Node {
	if field.IsText(data) {
		return textNode(data)
	}
	return mapping("hex", scalar(hex.EncodeToString(data)))
}

// cut returns an edit after which only the first n bytes of the body arrive.
func (x *exchange) cut(n int, end string) Edit {
	return at("http", x.index, func(item *yamlpos.Node) {
		testfile.SetField(replyOf(item), "body", content(x.body[:n]))
		testfile.SetField(replyOf(item), "end", scalar(end))
	})
}

// cuts returns the numbers of bytes after which the body is cut.
func (x *exchange) cuts() (all []int) {
	for n := 0; n < len(x.body); n += stride(len(x.body)) {
		all = append(all, n)
	}
	return all
}

// with returns an edit that replaces the body.
func (x *exchange) with(data func() []byte) Edit {
	return x.reply("body", func() *yamlpos.Node { return content(data()) })
}

func bytesOf(data []byte) func() []byte { return func() []byte { return data } }

// addReplies adds variants of the header and the timing.
func (x *exchange) addReplies(add func(Variant)) {
	if len(x.body) > 0 && !x.slowly {
		add(Variant{Family: testfile.ByteByByte, What: "the body arrives byte by byte", Rule: Same, Edit: x.reply("every", fixed(scalar(interval)))})
	}
	for _, status := range []int{500, 503, 404, 403, 302, 204} {
		v := Variant{Family: testfile.Status, Point: Header, What: fmt.Sprintf("the status is %d", status), Edit: x.reply("status", fixed(number(status)))}
		switch {
		case status == x.status:
			continue
		case status == http.StatusNoContent:
			v.Edit = at("http", x.index, func(n *yamlpos.Node) {
				testfile.SetField(replyOf(n), "status", number(204))
				testfile.SetField(replyOf(n), "body", nil)
			})
			v.What += ", without a body"
		case status >= 400 && x.status < 300:
			v.Rule = NoSuccess
		}
		add(v)
	}
	header := func(name, value string) Edit {
		return x.reply("headers", fixed(mapping(name, scalar(value))))
	}
	add(Variant{Family: "headers", What: "the content type is text/html", Edit: header("content-type", "text/html; charset=utf-16")})
	long := strings.Repeat("A", 64<<10)
	add(Variant{
		Family: "headers", What: "a header is very long", Edit: header("x-long", long),
		Size: len(long), Shrunk: func(n int) Edit { return header("x-long", long[:n]) },
	})
	add(Variant{Family: "headers", What: "the content length is wrong", Edit: header("content-length", "99999999999")})
	add(Variant{Family: "headers", What: "there are no headers", Edit: x.reply("headers", fixed(nil))})
}

// addBodies adds variants of the body.
func (x *exchange) addBodies(add func(Variant)) {
	if !x.known {
		return
	}
	add(Variant{Family: "body", What: "the body is empty", Edit: x.with(bytesOf(nil))})
	for _, other := range []stranger{
		{"an HTML page", []byte(page)}, {"not JSON", []byte("no")}, {"the JSON null", []byte("null")}, {"an empty list of JSON", []byte("[]")}, {"a number", []byte("0")},
		{"zeros", make([]byte, 64)},
	} {
		v := Variant{Family: testfile.AnotherBody, What: "the body is " + other.name, Edit: x.with(bytesOf(other.data))}
		if json.Valid(x.body) && !bytes.Contains(x.body, other.data) {
			v.Rule = NoSuccess
		}
		add(v)
	}
	for i, n := range x.cuts() {
		where := fmt.Sprintf("after %d of the %d bytes of the body", n, len(x.body))
		add(Variant{Family: testfile.CutAndClose, What: "the answer ends " + where, Edit: x.with(bytesOf(x.body[:n]))})
		add(Variant{Family: testfile.CutAndReset, What: "the connection is reset " + where, Rule: NoSuccess, Point: i, Edit: x.cut(n, "reset")})
		add(Variant{Family: "cut and stall", What: "the server stops " + where, Edit: x.cut(n, "half-open")})
	}
	for _, r := range rewrites(x.body) {
		v := Variant{Family: r.family, What: "in the body " + r.what, Edit: x.with(r.data), Size: r.size}
		if r.part != nil {
			v.Shrunk = func(n int) Edit { return x.with(func() []byte { return r.part(n) }) }
		}
		add(v)
	}
}
