package oci

import (
	"io"
	"net/http"
)

// metered is a transport that reports the progress of request and response bodies.
type metered struct {
	base     http.RoundTripper
	progress func(done, total int64) // nil for none
}

// RoundTrip implements [http.RoundTripper].
func (m *metered) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.progress == nil {
		return m.base.RoundTrip(req)
	}
	if req.Body != nil && req.ContentLength > 0 {
		clone := *req // a transport must not change its request
		clone.Body = &meter{ReadCloser: req.Body, total: req.ContentLength, progress: m.progress}
		req = &clone
	}
	res, err := m.base.RoundTrip(req)
	if err == nil && res.ContentLength > 0 && req.Method == http.MethodGet {
		res.Body = &meter{ReadCloser: res.Body, total: res.ContentLength, progress: m.progress}
	}
	return res, err
}

// meter is a body that counts the bytes read.
type meter struct {
	io.ReadCloser
	done, total int64
	progress    func(done, total int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.done += int64(n)
	m.progress(m.done, m.total)
	return n, err
}
