package push_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/push"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/manager"
)

var ttl = endpoint.Push{TTL: time.Hour}

// A report counts while the disk hangs, and neither a reload nor the end of the agent waits for the disk.
func TestDiskHangs(t *testing.T) {
	dir := folder(t)
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir, checks)
		release := p.HangDisk()
		if status, text := send(serve(p), "POST", "/push/"+token+"?result=warning&message=slow", ""); status != 503 {
			t.Errorf("%d %s", status, text)
		}
		if got := answer(p, "backup"); got != "warning slow" {
			t.Errorf("the check answers %s", got)
		}
		cfg, err := config.Parse("prober.yaml", []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\npush:\n- {name: backup, ttl: 2h}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Set("prober.yaml", cfg.Push); err != nil { // must not wait
			t.Error(err)
		}
		if got := answer(p, "backup"); got != "warning slow" {
			t.Errorf("the changed check answers %s", got)
		}
		release()
		if err := p.Started("backup"); err != nil {
			t.Error(err)
		}
		p.HangDisk()
		p.Close()                     // must not wait for ever
		again := open(t, dir, checks) // in the bubble, whose clock the journal has
		defer again.Close()
		if got := answer(again, "backup"); got != "warning slow" {
			t.Errorf("after a restart, the check answers %s", got)
		}
	})
}

// A disk that stays full is logged once.
func TestFullDiskIsLoggedOnce(t *testing.T) {
	dir := folder(t)
	var log bytes.Buffer
	p := push.New(push.Config{StateDir: dir, Trigger: func(manager.Key) error { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close()
	if err := p.Set(filepath.Join(dir, "prober.yaml"), []config.Push{{Name: "job", Check: ttl}}); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, "pushes.jsonl")
	if err := os.Mkdir(journal, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if p.Started("job") == nil {
			t.Fatal("a report was stored")
		}
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Started("job"); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
}

// Slow senders with the token of one push leave slots of [access.Shares] for other pushes.
func TestSlowSendersOfOnePush(t *testing.T) {
	dir := folder(t)
	const other = "another-token-of-another-push"
	if err := os.WriteFile(filepath.Join(dir, "other.token"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir, checks+"- {name: other, ttl: 1h, tokenFile: other.token}\n")
		defer p.Close()
		shares := access.Shares{Slots: 100, Wait: time.Second, Cut: func(string) {}, Full: func(w http.ResponseWriter) { w.WriteHeader(503) }}
		h := shares.Limit(serve(p).ServeHTTP)
		body, sender := io.Pipe()
		var sending sync.WaitGroup
		for range 200 {
			sending.Go(func() { h(httptest.NewRecorder(), httptest.NewRequest("POST", "/push/"+token, body)) })
		}
		synctest.Wait()
		if status, text := send(h, "POST", "/push/"+other, ""); status != 200 {
			t.Errorf("another push: %d %s", status, text)
		}
		_ = sender.Close()
		sending.Wait()
		if status, text := send(h, "POST", "/push/"+token+"?message=later", ""); status != 200 {
			t.Errorf("later: %d %s", status, text)
		}
	})
}

// A report keeps none of the memory of its request.
func TestReportsKeepNoRequests(t *testing.T) {
	const n = 50
	p := push.New(push.Config{Trigger: func(manager.Key) error { return nil }, Log: slog.New(slog.DiscardHandler)})
	defer p.Close()
	var all []config.Push
	for i := range n {
		all = append(all, config.Push{Name: fmt.Sprint("push", i), Check: ttl})
	}
	if err := p.Set("prober.yaml", all); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range n {
		for _, code := range []string{"0", "2"} {
			line := fmt.Sprintf("push%d\t%s\tx%s", i, code, strings.Repeat(" ", 400<<10))
			if status, text := send(serve(p), "POST", "/api/v1/push", line); status != 200 {
				t.Fatal(text)
			}
		}
	}
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d reports keep %d bytes", n, grown)
	}
	runtime.KeepAlive(p)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
