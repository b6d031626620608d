package notify_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/notify"
)

// BenchmarkChanged measures the cost of a change for a tick.
func BenchmarkChanged(b *testing.B) {
	for _, receivers := range []int{0, 1, 10} {
		b.Run(fmt.Sprint("receivers=", receivers), func(b *testing.B) {
			var text strings.Builder
			for i := range receivers {
				text.WriteString(fmt.Sprintf("{name: r%d, webhook: {url: 'http://h'}},", i))
			}
			n := notify.New(notify.Config{Log: slog.New(slog.DiscardHandler)})
			n.Set("prober.yaml", parse(b, "notify: {receivers: ["+text.String()+"]}"))
			c := changeOf("web", failure, "connection refused")
			b.ReportAllocs()
			for b.Loop() {
				n.Changed(c)
			}
		})
	}
}
