package maintenance_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// fleet returns a table with probes, and windows of which each selects a hundredth of them.
func fleet(b *testing.B, probes, windows int) (*maintenance.Table, []config.Maintenance) {
	b.Helper()
	t := maintenance.New(maintenance.Config{
		Changed: func([]maintenance.Change) {}, Began: func(*maintenance.Window) {}, Ended: func(*maintenance.Window) {}, Log: slog.New(slog.DiscardHandler),
	})
	b.Cleanup(t.Close)
	var all []config.Maintenance
	for i := range windows {
		c, err := config.Parse("f", fmt.Appendf(nil, head+"maintenance: [{name: w%d, match: [{pod: 'p%02d-*'}], schedule: '%d 3 * * *', duration: 1h}]\n", i, i%100, i%60))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, c.Maintenance...)
	}
	t.Set(all)
	for i := range probes {
		t.Observe(info(fmt.Sprintf("p%02d-%d", i%100, i), nil))
	}
	return t, all
}

func BenchmarkWindow(b *testing.B) {
	const probes, windows = 10_000, 100
	b.Run(fmt.Sprintf("do=start+end/probes=%d/windows=%d", probes, windows), func(b *testing.B) {
		t, _ := fleet(b, probes, windows)
		c, err := config.Parse("f", fmt.Appendf(nil, head+"maintenance: [{name: now, match: [{pod: 'p01-*'}], from: %s, until: %s}]\n",
			time.Now().Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339)))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := t.Start(maintenance.Window{Maintenance: c.Maintenance[0], By: "root"}); err != nil {
				b.Fatal(err)
			}
			if err := t.End("now"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("do=reload/probes=%d/windows=%d", probes, windows), func(b *testing.B) {
		t, all := fleet(b, probes, windows)
		for b.Loop() {
			t.Set(all)
		}
	})
	b.Run(fmt.Sprintf("do=observe/windows=%d", windows), func(b *testing.B) {
		t, _ := fleet(b, 0, windows)
		for b.Loop() {
			t.Observe(info("p01-1", nil)).Close()
		}
	})
	b.Run(fmt.Sprintf("do=of/probes=%d", probes), func(b *testing.B) {
		t, _ := fleet(b, probes, windows)
		for b.Loop() {
			t.Of(manager.Key{PodUID: "uid-p01-1", Container: "web", Kind: probe.Readiness})
		}
	})
}
