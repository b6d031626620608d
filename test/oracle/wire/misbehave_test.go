package wire

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestMisbehaving makes many attempts at misbehaving servers. Afterwards the process must not have more
// descriptors, goroutines or threads than after the first attempts.
func TestMisbehaving(t *testing.T) {
	kinds := map[string][]situation{
		"http": {
			{name: "closes", server: begins(), probe: root}, {name: "resets", server: begins(reset), probe: root}, {name: "answers", server: answers(whole), probe: root},
			{name: "garbage", server: answers("garbage\r\n\r\n"), probe: root}, {name: "half closed", server: answers(finish, whole, open), probe: root}, {name: "cut", server: answers(ok + "Content-Length: 9\r\n\r\nok"), probe: root},
			{name: "endless body", server: answers(ok+"\r\n", endless("x")), probe: root}, {name: "refuses", server: server{}, probe: get{path: "/", port: refusedPort}},
			{name: "hangs", server: answers(hang), probe: brief{root}}, {name: "hangs in the body", server: answers(ok+"\r\nx", hang), probe: brief{root}}, {name: "redirects", server: each(to(302, "/")), probe: root},
		},
		"https": {
			{name: "closes", server: begins(), probe: secure}, {name: "resets", server: begins(request, reset), probe: secure}, {name: "answers", server: answers(whole).secured(certified()), probe: secure},
			{name: "garbage", server: begins(request, "garbage and garbage"), probe: secure}, {name: "alert", server: begins(request, "\x15\x03\x03\x00\x02\x02\x28"), probe: secure},
			{name: "cut", server: answers(ok + "Content-Length: 9\r\n\r\nok").secured(certified()), probe: secure}, {name: "HTTP/2", server: serve2Whole(certified("h2")), probe: secure}, {name: "HTTP/2 resets", server: serve2(resetStream(2)), probe: secure},
			{name: "HTTP/2 hangs", server: serve2(hang), probe: brief{secure}}, {name: "HTTP/2 hangs in the body", server: serve2(webHeaders+data("bo"), hang), probe: brief{secure}}, {name: "HTTP/2 trailers", server: serve2(webHeaders + data("body") + trailers("x", "y")), probe: secure},
			{name: "refuses", server: server{}, probe: get{path: "/", scheme: "HTTPS", port: refusedPort}}, {name: "hangs", server: begins(hang), probe: brief{secure}}, {name: "hangs in the body", server: answers(ok+"\r\nx", hang).secured(certified()), probe: brief{secure}},
		},
		"tcp": {
			{name: "accepts", server: begins(), probe: connect{}}, {name: "resets", server: begins(reset), probe: connect{}}, {name: "speaks", server: begins("220 smtp\r\n"), probe: connect{}}, {name: "refuses", server: server{}, probe: connect{port: refusedPort}},
			{name: "full", server: server{full: true, scripts: []script{{}}}, probe: brief{connect{}}},
		},
		"grpc": {
			{name: "serves", server: speaks(grpcWhole), probe: check{}}, {name: "resets the stream", server: speaks(resetStream(2)), probe: check{}}, {name: "garbage after the call", server: speaks("garbage garbage"), probe: check{}}, {name: "closes after the call", server: speaks(), probe: check{}},
			{name: "resets after the call", server: speaks(reset), probe: check{}}, {name: "GOAWAY after the call", server: speaks(goAway(1, 2, "bye")), probe: check{}}, {name: "hangs after the call", server: speaks(hang), probe: brief{check{}}},
			{name: "closes", server: raw(), probe: brief{check{}}}, {name: "refuses", server: server{}, probe: brief{check{port: 9}}}, {name: "not gRPC", server: raw(preface, whole), probe: brief{check{}}}, {name: "HTML", server: speaks(headers(":status", "503", "content-type", "text/html") + lastData("no")), probe: check{}},
		},
		"exec": {
			{name: "ends", probe: run{"true"}}, {name: "fails", probe: run{"false"}}, {name: "does not exist", probe: run{"/does/not/exist"}}, {name: "writes for ever", probe: brief{run{"yes"}}}, {name: "hangs", probe: brief{run{"sleep", "60"}}}, {name: "leaves a child", probe: run{"sh", "-c", "sleep 60 & echo ok"}},
		},
	}
	for kind, servers := range kinds {
		t.Run(kind, func(t *testing.T) {
			count := *probes
			if kind == "exec" {
				count = min(count, *commands)
			}
			misbehave(t, servers, count)
		})
	}
}

// misbehave makes count attempts at all servers. Attempts that last until the deadline are rare.
func misbehave(t *testing.T, servers []situation, count int) {
	t.Helper()
	const workers, often = 16, 25
	var turn []question
	for _, s := range servers {
		port, times := 0, often
		if s.server.scripts != nil {
			r := s.server.start(s.server.scripts)
			r.forgets = true
			defer r.stop()
			port = r.port
		}
		q := s.probe.ask(port)
		if q.timeout == 0 {
			q.timeout = longDeadline
		} else {
			times = 1
		}
		turn = append(turn, slices.Repeat([]question{q}, times)...)
	}
	batch := func(n int) {
		var made atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := made.Add(1); i <= int64(n); i = made.Add(1) {
					fixed.ask(turn[int(i*31)%len(turn)]) // consecutive attempts use different servers
				}
			})
		}
		wg.Wait()
	}
	batch(min(count, 2*len(turn)))
	before := settle(usage())
	start := time.Now()
	batch(count)
	took := time.Since(start).Round(time.Millisecond)
	after := settle(before)
	t.Logf("%d attempts in %v: %v before, %v after", count, took, before, after)
	if after.descriptors > before.descriptors || after.goroutines > before.goroutines || after.threads > before.threads+spareThreads {
		t.Errorf("%v before, %v after %d attempts", before, after, count)
	}
}

// spareThreads is the number of further threads that the Go runtime may have: it keeps threads that it once
// needed for system calls.
const spareThreads = 16

// resources counts the resources of this process.
type resources struct{ descriptors, goroutines, threads int }

func (u resources) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d threads", u.descriptors, u.goroutines, u.threads)
}

// refusedPort is a port without a listener.
var refusedPort = intstr.FromInt(9)

// usage returns the current resources of this process.
func usage() resources {
	runtime.GC() // collects idle pools
	runtime.GC()
	return resources{entries("/proc/self/fd"), runtime.NumGoroutine(), entries("/proc/self/task")}
}

// settle waits until the process uses no more than before, at most for ten seconds: servers notice later that
// a client has closed a connection, and timers expire.
func settle(before resources) resources {
	time.Sleep(300 * time.Millisecond)
	for range 100 {
		after := usage()
		if after.descriptors <= before.descriptors && after.goroutines <= before.goroutines {
			return after
		}
		time.Sleep(100 * time.Millisecond)
	}
	return usage()
}

func entries(folder string) int {
	list, err := os.ReadDir(folder)
	if err != nil {
		panic(err)
	}
	return len(list)
}
