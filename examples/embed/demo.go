package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/core/declared"
)

// podIP is the address of the one pod in the fabric.
const podIP = "10.1.0.7"

// container is one running copy of a workload.
type container interface {
	Waiting() int // jobs in its queue
	Stop()
}

// workload starts containers on the fabric, by name.
type workload map[string]func(*fabric) container

// demoPod returns a pod with a web server, a worker whose queue grows until it is restarted, and with
// the redis plugin a cache.
func demoPod(withRedis bool) (*v1.Pod, workload) {
	probes := `
worker:
  liveness:
    plugin: {name: backlog, config: {warn: 5, fail: 20}}
    period: 50ms
    failureThreshold: 2
`
	w := workload{"web": newWeb, "worker": newWorker}
	containers := []v1.Container{
		{Name: "web", ReadinessProbe: &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{
			HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(80)},
		}}},
		{Name: "worker"},
	}
	if withRedis {
		probes += `
cache:
  readiness:
    plugin: {name: redis, target: {port: 6379}}
    period: 200ms
`
		w["cache"] = newCache
		containers = append(containers, v1.Container{Name: "cache"})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "shop", UID: "shop-1",
			Annotations: map[string]string{declared.Annotation: probes},
		},
		Spec: v1.PodSpec{Containers: containers},
	}, w
}

// server is a container that accepts connections.
type server struct{ net.Listener }

func (s server) Waiting() int { return 0 }
func (s server) Stop()        { s.Close() }

func newWeb(f *fabric) container {
	l := f.Listen(podIP + ":80")
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") }))
	return server{l}
}

// newCache starts a server with the part of Redis' protocol that the plugin needs.
func newCache(f *fabric) container {
	l := f.Listen(podIP + ":6379")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveCache(conn)
		}
	}()
	return server{l}
}

func serveCache(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch strings.ToUpper(lines.Text()) {
		case "PING":
			fmt.Fprint(conn, "+PONG\r\n")
		case "INFO":
			fmt.Fprint(conn, "$13\r\nrole:master\r\n\r\n")
		}
	}
}

// worker is a container whose queue grows all the time.
type worker struct {
	jobs    atomic.Int64
	stopped chan struct{}
}

func newWorker(*fabric) container {
	w := &worker{stopped: make(chan struct{})}
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.jobs.Add(1)
			case <-w.stopped:
				return
			}
		}
	}()
	return w
}

func (w *worker) Waiting() int { return int(w.jobs.Load()) }
func (w *worker) Stop()        { close(w.stopped) }
