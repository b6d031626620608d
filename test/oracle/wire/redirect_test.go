package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// to returns a redirect without a body.
func to(code int, location string) string {
	return fmt.Sprintf("HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", code, location)
}

func TestHTTPRedirects(t *testing.T) {
	var table []situation
	add := func(name string, s server) { table = append(table, situation{name, s, root, ""}) }
	for _, code := range []int{300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 399} {
		add(fmt.Sprintf("%d to a path", code), each(to(code, "/there"), whole))
		add(fmt.Sprintf("%d to a path that fails", code), each(to(code, "/there"), "HTTP/1.1 500 No\r\n\r\n"))
		add(fmt.Sprintf("%d with a body to a path", code), each(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: /there\r\nContent-Length: 4\r\n\r\nbody", code), whole))
		add(fmt.Sprintf("%d without a place", code), each(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 4\r\n\r\nbody", code)))
		add(fmt.Sprintf("%d to another host", code), each(to(code, "http://example.invalid/")))
		add(fmt.Sprintf("%d to another host, with a body", code), each(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: http://example.invalid/\r\nContent-Length: 4\r\n\r\nbody", code)))
		add(fmt.Sprintf("%d to another port", code), server{scripts: []script{{request, to(code, "http://127.0.0.1:{other}/p?q")}}, other: []script{{request, whole}}})
	}
	for _, code := range []int{200, 201, 404, 500, 101} {
		add(fmt.Sprintf("place of a %d", code), each(to(code, "/there"), whole))
	}
	for _, place := range []string{
		"", " ", "there", "./there", "../there", "../../../there", "/a/../b", "//", "//127.0.0.1:{port}/there", "//example.invalid/", "///there", "?q", "#f", "?", "#", "there?q#f", "/there#f", "there;x", ".", "..", "*",
		"http:", "http:/", "http://", "http:there", "http:/there", "http:///there", "HTTP://127.0.0.1:{port}/there", "hTtP://127.0.0.1:{port}", "http://127.0.0.1:{port}", "http://127.0.0.1:{port}?q", "http://127.0.0.1:{port}#f", "http://127.0.0.1:{port}/../x",
		"http://user@127.0.0.1:{port}/there", "http://user:secret@127.0.0.1:{port}/there", "http://:@127.0.0.1:{port}/", "http://127.0.0.1@example.invalid/", "http://127.0.0.1:{port}@example.invalid/", "http://example.invalid\\@127.0.0.1:{port}/",
		"http://localhost:{port}/there", "http://127.1:{port}/", "http://2130706433:{port}/", "http://0x7f.1:{port}/", "http://127.0.0.2:{port}/", "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://0.0.0.0:{port}/", "http://127.0.0.1.:{port}/", "http://[127.0.0.1]:{port}/",
		"http://127.0.0.1:1/", "http://127.0.0.1:/there", "http://127.0.0.1:0/", "http://127.0.0.1:65536/", "http://127.0.0.1:x/", "http://127.0.0.1:-1/", "http://127.0.0.1:{port}:1/",
		"https://127.0.0.1:{port}/", "https://example.invalid/", "ftp://127.0.0.1:{port}/", "ftp://example.invalid/", "file:///etc/passwd", "javascript:alert(1)", "mailto:x@example.invalid", "data:,ok", "unix:///run/x.sock", "ws://127.0.0.1:{port}/", "h2c://127.0.0.1:{port}/", "://", ":there", "1http://x/", "127.0.0.1:{port}/there",
		"/%zz", "/%", "/%2", "/%00", "/%0d%0aX:%20y", "/a b", "/a\tb", "/ü", "/%c3%bc", "/a%2fb", "/a+b", "/\"", "/<>", "/{}", "/|", "/^", "/`", "/\\", "\\\\example.invalid\\", "/[", "/]", "/:", "/@", "/a//b", "/\x01", "/\x7f", "/\xff", "http://[::1", "http://[", "http://]/", "http://a b/", "http://%31/", "http://%zz/", "http://exa_mple.invalid:1/", "http://ü.invalid/", "http://-/", "http://.../",
		"/" + strings.Repeat("x", 8000), "/" + strings.Repeat("x", 70000), "/there, /elsewhere", "/there ", " /there", "\t/there", "<http://127.0.0.1:{port}/>", "\"/there\"",
	} {
		name := place
		if len(name) > 80 {
			name = fmt.Sprintf("%s of %d", name[:10], len(place))
		}
		add(fmt.Sprintf("to %q", name), each(to(302, place), whole))
	}
	add("two places", each("HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", whole))
	add("place in lower case", each("HTTP/1.1 302 Found\r\nlocation: /a\r\nContent-Length: 0\r\n\r\n", whole))
	add("place that is folded", each("HTTP/1.1 302 Found\r\nLocation: /a\r\n b\r\nContent-Length: 0\r\n\r\n", whole))
	add("loop", each(to(302, "/")))
	add("loop of two", each(to(302, "/a"), to(302, "/"), to(302, "/a"), to(302, "/"), to(302, "/a"), to(302, "/"), to(302, "/a"), to(302, "/"), to(302, "/a"), to(302, "/"), to(302, "/a"), to(302, "/")))
	for n := range 13 {
		var texts []string
		for i := range n {
			texts = append(texts, to(302, fmt.Sprintf("/%d", i+1)))
		}
		add(fmt.Sprintf("%d of them", n), each(append(texts, whole)...))
		add(fmt.Sprintf("%d of them, and another host", n), each(append(texts, to(302, "http://example.invalid/"))...))
	}
	for name, steps := range map[string]script{
		"without a length":          {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n"},
		"without a length, open":    {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n", hang},
		"with a body that hangs":    {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 10\r\n\r\nx", hang},
		"with a body that is cut":   {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 10\r\n\r\nx"},
		"with a body that is reset": {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 10\r\n\r\nx", 20 * time.Millisecond, reset},
		"with an endless body":      {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n", endless("x")},
		"with broken chunks":        {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nTransfer-Encoding: chunked\r\n\r\nbroken"},
		"with a body of 2 KB":       {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 2048\r\n\r\n" + strings.Repeat("x", 2048)},
		"with a body of 3 KB":       {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 3072\r\n\r\n" + strings.Repeat("x", 3072)},
		"with a body of 1 MB":       {request, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20)},
		"after a continue":          {request, "HTTP/1.1 100 Continue\r\n\r\n" + to(302, "/there")},
		"that sets a cookie":        {request, "HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"},
		"that wants to be kept":     {request, "HTTP/1.1 302 Found\r\nConnection: keep-alive\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"},
	} {
		add("redirect "+name, server{scripts: []script{steps, {request, whole}}})
		add("redirect "+name+", then a hang", server{scripts: []script{steps, {request, hang}}})
		table = append(table, situation{"redirect " + name + ", then a reset", server{scripts: []script{steps, {reset}}}, root, "early close"})
	}
	add("to https on a plain port", each(to(302, "https://127.0.0.1:{port}/"), "HTTP/1.1 400 Bad Request\r\n\r\n"))
	add("to a refused port", each(to(302, "http://127.0.0.1:9/")))
	add("hang after a redirect to another port", server{scripts: []script{{request, to(302, "http://127.0.0.1:{other}/")}}, other: []script{{request, hang}}})
	add("back and forth between ports", server{scripts: []script{{request, to(302, "http://127.0.0.1:{other}/a")}, {request, whole}}, other: []script{{request, to(302, "http://127.0.0.1:{other}/b")}}})
	judgeAll(t, table)
}

// TestHTTPRedirectedRequests compares the requests after redirects.
func TestHTTPRedirectedRequests(t *testing.T) {
	var table []situation
	for name, p := range map[string]get{
		"headers":              {path: "/a?b", headers: []string{"X-One", "1", "X-One", "2", "User-Agent", "me", "Accept", ""}},
		"Host":                 {path: "/", headers: []string{"Host", "example.com"}},
		"Authorization":        {path: "/", headers: []string{"Authorization", "Basic YQ=="}},
		"Cookie":               {path: "/", headers: []string{"Cookie", "a=b"}},
		"Referer":              {path: "/", headers: []string{"Referer", "http://example.com/"}},
		"a fragment":           {path: "/a#b"},
		"a query":              {path: "/a?b=c&d"},
		"an escaped path":      {path: "/a%2fb/c"},
		"a host by name":       {path: "/", host: "localhost"},
		"Content-Length":       {path: "/", headers: []string{"Content-Length", "2"}},
		"Connection":           {path: "/", headers: []string{"Connection", "keep-alive"}},
		"a header in its case": {path: "/", headers: []string{"x-lower", "1"}},
	} {
		for where, place := range map[string]string{"a path": "/there", "a relative path": "there", "a query": "?q", "another port": "http://127.0.0.1:{other}/", "another port by name": "http://localhost:{other}/", "itself": "http://127.0.0.1:{port}/x", "userinfo": "http://u:p@127.0.0.1:{port}/x"} {
			for _, code := range []int{302, 307} {
				table = append(table, situation{
					fmt.Sprintf("%s by a %d to %s", name, code, where),
					server{scripts: []script{{request, to(code, place)}, {request, whole}}, other: []script{{request, whole}}}, p, "",
				})
			}
		}
	}
	judgeAll(t, table)
}
