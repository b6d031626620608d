package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
)

// peer is another prober, which is measured if -peer names its program.
type peer struct {
	// config writes the configuration for n targets into dir, and returns the arguments of the program.
	config func(dir, listen string, server *target.Server, n int) (args []string, err error)
	// url returns the URL that asks for one attempt, for a program that makes none by itself; nil for others.
	url func(listen string, server *target.Server, i int) string
}

// peers are the programs that -peer may name.
var peers = map[string]peer{
	"cloudprober": {config: func(dir, listen string, server *target.Server, n int) ([]string, error) {
		_, port, err := net.SplitHostPort(listen)
		if err != nil {
			return nil, err
		}
		hosts := make([]string, n)
		for i := range hosts {
			hosts[i] = target.Address(i)
		}
		file := filepath.Join(dir, "cloudprober.cfg")
		text := fmt.Sprintf("port: %s\nhost: \"127.0.0.1\"\nprobe {\n  name: \"web\"\n  type: HTTP\n  interval: \"1s\"\n  timeout: \"1s\"\n"+
			"  targets { host_names: %q }\n  http_probe { port: %d relative_url: \"/healthz\" }\n}\n", port, strings.Join(hosts, ","), server.HTTP)
		return []string{"--config_file", file}, os.WriteFile(file, []byte(text), 0o600)
	}},
	"blackbox_exporter": {
		config: func(dir, listen string, _ *target.Server, _ int) ([]string, error) {
			file := filepath.Join(dir, "blackbox.yml")
			text := "modules:\n  web: {prober: http, timeout: 1s, http: {preferred_ip_protocol: ip4}}\n"
			return []string{"--config.file", file, "--web.listen-address", listen}, os.WriteFile(file, []byte(text), 0o600)
		},
		url: func(listen string, server *target.Server, i int) string {
			return fmt.Sprintf("http://%s/probe?module=web&target=http://%s:%d/healthz", listen, target.Address(i), server.HTTP)
		},
	},
}

// CheckPeers returns an error for a name that is not known.
func CheckPeers(paths map[string]string) error {
	for name := range paths {
		if _, ok := peers[name]; !ok {
			return fmt.Errorf("unknown peer %q; known: %s", name, strings.Join(slices.Sorted(maps.Keys(peers)), ", "))
		}
	}
	return nil
}

// probeByPeer measures a program of others with n targets.
func (e *Env) probeByPeer(ctx context.Context, name string, server *target.Server, n int) (_ map[string]record.Number, err error) {
	dir, err := os.MkdirTemp("", "prober-peer")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := peers[name]
	args, err := p.config(dir, listen, server, n)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, e.Peers[name], args...)
	cmd.Dir, cmd.Cancel, cmd.WaitDelay = dir, func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 10*time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var drivers sync.WaitGroup
	if p.url != nil {
		drivers.Go(func() { drive(ctx, n, func(i int) string { return p.url(listen, server, i) }) })
	}
	figures := make(map[string]record.Number)
	if err = e.started(ctx, server, n); err == nil {
		figures, err = e.watch(ctx, cmd.Process.Pid, server, n)
	}
	stop()
	drivers.Wait()
	_ = cmd.Wait() // it was ended by a signal
	return figures, err
}

// freeAddress returns an address of loopback with a port that is free at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// drive asks each URL once a second, spread over the second, as Prometheus does with a scrape interval of 1 s.
func drive(ctx context.Context, n int, url func(i int) string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	var requests sync.WaitGroup
	defer requests.Wait()
	start := time.Now()
	for i := 0; ; i++ {
		if pause(ctx, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(n)))) != nil {
			return
		}
		requests.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url(i%n), http.NoBody)
			if err != nil {
				return
			}
			if answer, err := client.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body) // an error is a request that the target misses
				answer.Body.Close()
			}
		})
	}
}
