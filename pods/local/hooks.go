package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hookUserAgent is the User-Agent of lifecycle hooks.
const hookUserAgent = "kube-lifecycle/1.36"

// hook runs a lifecycle hook of a container.
func (p *pod) hook(ctx context.Context, c *container, spec *v1.Container, h *v1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		p.mu.Lock()
		id := c.id
		p.mu.Unlock()
		_, err := p.owner.RunInContainer(ctx, id, h.Exec.Command, 0)
		return err
	case h.HTTPGet != nil:
		return p.httpHook(ctx, spec, h.HTTPGet)
	case h.Sleep != nil:
		wait(ctx, nil, time.Duration(h.Sleep.Seconds)*time.Second)
		return ctx.Err()
	default:
		return nil
	}
}

// httpHook sends the HTTP request of a hook. Every response is a success.
func (p *pod) httpHook(ctx context.Context, spec *v1.Container, h *v1.HTTPGetAction) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.hookURL(spec, h), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", hookUserAgent)
	req.Header.Set("Accept", "*/*")
	for _, header := range h.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			req.Host = header.Value
			continue
		}
		req.Header.Add(header.Name, header.Value)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.CopyN(io.Discard, answer.Body, 10<<10)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *pod) hookURL(spec *v1.Container, h *v1.HTTPGetAction) string {
	host := h.Host
	if host == "" {
		p.mu.Lock()
		host = p.ip
		p.mu.Unlock()
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, portOf(spec, h.Port))}
	if h.Scheme == v1.URISchemeHTTPS {
		u.Scheme = "https"
	}
	path, query, _ := strings.Cut(h.Path, "?")
	u.Path, u.RawQuery = "/"+strings.TrimPrefix(path, "/"), query
	return u.String()
}

// portOf resolves a port by number or by the name of one of the container's ports.
func portOf(spec *v1.Container, port intstr.IntOrString) string {
	if port.Type == intstr.String {
		for _, named := range spec.Ports {
			if named.Name == port.StrVal {
				return strconv.Itoa(int(named.ContainerPort))
			}
		}
	}
	return fmt.Sprint(port.IntValue())
}
