package liveness

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

// hookUserAgent is the kubelet's User-Agent of lifecycle hooks.
const hookUserAgent = "kube-lifecycle/1.36"

// hook runs the preStop hook of a container, for no longer than the grace period.
func (a *Actor) hook(ctx context.Context, t *task, c *v1.Container) error {
	ctx, cancel := context.WithTimeout(ctx, t.order.grace)
	defer cancel()
	switch h := c.Lifecycle.PreStop; {
	case h.Exec != nil && a.cfg.Exec == nil:
		return errors.New("commands cannot be run in containers")
	case h.Exec != nil:
		_, err := a.cfg.Exec(ctx, t.failure.ContainerID, h.Exec.Command, t.order.grace)
		return err
	case h.HTTPGet != nil:
		return httpHook(ctx, t.pod, c, h.HTTPGet)
	case h.Sleep != nil:
		// Without the limit the product overflows. The end of ctx comes before it.
		timer := time.NewTimer(time.Duration(min(max(h.Sleep.Seconds, 0), 1<<31)) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		return errors.New("the hook has no handler")
	}
}

// httpHook sends the HTTP request of a hook to the pod. Every response is a success, and no redirect
// is followed.
func httpHook(ctx context.Context, pod *v1.Pod, c *v1.Container, h *v1.HTTPGetAction) error {
	target, err := hookURL(pod, c, h)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
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
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as the kubelet does
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.CopyN(io.Discard, answer.Body, 10<<10); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// hookURL returns the URL of a hook. Only addresses of the pod are allowed: an agent in the network of
// the node reaches more than the pod's owner may.
func hookURL(pod *v1.Pod, c *v1.Container, h *v1.HTTPGetAction) (string, error) {
	host := h.Host
	if host == "" {
		host = pod.Status.PodIP
	}
	if host == "" {
		return "", errors.New("the pod has no address")
	}
	own := host == pod.Status.PodIP
	for _, ip := range pod.Status.PodIPs {
		own = own || host == ip.IP
	}
	if !own {
		return "", fmt.Errorf("host %q is no address of the pod", host)
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, portOf(c, h.Port))}
	if h.Scheme == v1.URISchemeHTTPS {
		u.Scheme = "https"
	}
	path, query, _ := strings.Cut(h.Path, "?")
	u.Path, u.RawQuery = "/"+strings.TrimPrefix(path, "/"), query
	return u.String(), nil
}

// portOf resolves a port by number or by the name of one of the container's ports.
func portOf(c *v1.Container, port intstr.IntOrString) string {
	if port.Type == intstr.String {
		for _, named := range c.Ports {
			if named.Name == port.StrVal {
				return strconv.Itoa(int(named.ContainerPort))
			}
		}
	}
	return strconv.Itoa(port.IntValue())
}
