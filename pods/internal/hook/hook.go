// Package hook runs lifecycle hooks of containers as the kubelet does.
package hook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/internal/pace"
)

// userAgent is the kubelet's User-Agent of lifecycle hooks.
const userAgent = "kube-lifecycle/1.36"

const (
	maxBody   = 10 << 10
	maxHeader = 64 << 10
)

// Hooks are the hooks of one container.
type Hooks struct {
	// Container has the named ports.
	Container *v1.Container
	// IP is the host of a request without a host.
	IP string
	// Hosts has the allowed hosts of requests; nil allows all.
	Hosts []string
	// Exec runs a command in the container; nil: commands are errors.
	Exec func(ctx context.Context, command []string) error
}

// Run runs h until ctx ends.
func (k *Hooks) Run(ctx context.Context, h *v1.LifecycleHandler) error {
	switch {
	case h.Exec != nil && k.Exec == nil:
		return errors.New("commands cannot be run in containers")
	case h.Exec != nil:
		return k.Exec(ctx, h.Exec.Command)
	case h.HTTPGet != nil:
		return k.get(ctx, h.HTTPGet)
	case h.Sleep != nil:
		pace.Wait(ctx, nil, pace.Seconds(h.Sleep.Seconds))
		return ctx.Err()
	default: // tcpSocket too, which the kubelet does not support in hooks
		return errors.New("the hook has no handler")
	}
}

// get sends the request of a hook, without a proxy. Every response is a success. Certificates are not verified.
func (k *Hooks) get(ctx context.Context, h *v1.HTTPGetAction) error {
	req, err := k.request(ctx, h)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: httpget.CheckRedirect,
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxBody)
	return nil
}

func (k *Hooks) request(ctx context.Context, h *v1.HTTPGetAction) (*http.Request, error) {
	host := h.Host
	if host == "" {
		host = k.IP
	}
	switch {
	case host == "":
		return nil, errors.New("the pod has no address")
	case k.Hosts != nil && !slices.Contains(k.Hosts, host):
		return nil, fmt.Errorf("host %q is no address of the pod", host)
	}
	port, err := portOf(k.Container, h.Port)
	if err != nil {
		return nil, err
	}
	target, err := httpget.URL(string(h.Scheme), net.JoinHostPort(host, strconv.Itoa(port)), h.Path)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(h.HTTPHeaders))
	for _, one := range h.HTTPHeaders {
		header.Add(one.Name, one.Value)
	}
	req := &http.Request{Method: http.MethodGet, URL: target, Host: header.Get("Host"), Header: httpget.Header(header, userAgent)}
	return req.WithContext(ctx), nil
}

// portOf resolves a port by number or by the name of one of the container's ports.
func portOf(c *v1.Container, port intstr.IntOrString) (int, error) {
	n := port.IntValue()
	for _, named := range c.Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			n = int(named.ContainerPort)
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %s: must be from 1 to 65535, or the name of a port of the container", &port)
	}
	return n, nil
}
