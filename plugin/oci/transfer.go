package oci

import (
	"io"
	"net/http"
)

// metered is a transport that reports the progress of the bodies that it carries.
type metered struct {
	base     http.RoundTripper
	progress func(done, total int64) // nil: nobody wants to know
}

// RoundTrip implements [http.RoundTripper].
func (m *metered) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.progress == nil {
		return m.base.RoundTrip(req)
	}
	if req.Body != nil && req.ContentLength > 0 {
		clone := *req // a transport may not change what it was given
		clone.Body = &meter{ReadCloser: req.Body, total: req.ContentLength, progress: m.progress}
		req = &clone
	}
	res, err := m.base.RoundTrip(req)
	if err == nil && res.ContentLength > 0 && req.Method == http.MethodGet {
		res.Body = &meter{ReadCloser: res.Body, total: res.ContentLength, progress: m.progress}
	}
	return res, err
}

// meter is a body that counts what is read of it.
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
