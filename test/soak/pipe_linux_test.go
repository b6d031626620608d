//go:build soak

package soak

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRunContinuesWithoutLogReader is `prober run 2>&1 | head -1`: the agent goes on when the reader
// of its log and of its containers' output has ended. SIGTERM ends it with the grace period of its
// containers.
func TestRunContinuesWithoutLogReader(t *testing.T) {
	need(t)
	var table figures
	defer table.print("prober run | head -1")
	dir := t.TempDir()
	mark := fmt.Sprintf("head-%d-%d", os.Getpid(), time.Now().UnixNano())
	graceful, manifest := filepath.Join(dir, "graceful"), filepath.Join(dir, "pod.yaml")
	text := fmt.Sprintf(pod, "talker", "\n      {}", fmt.Sprintf(`
  - name: talker
    command: [sh, -c, "trap 'sleep 1; echo graceful >%s; exit 0' TERM; while :; do echo here; sleep 0.05; done", %s]
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}`, graceful, mark))
	writeFile(t, manifest, text)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, write, write, "-f", manifest)
	_ = write.Close()
	if line, err := bufio.NewReaderSize(read, 16).ReadString('\n'); err != nil {
		t.Fatalf("the first line: %q, %v", line, err)
	}
	_ = read.Close()
	select {
	case <-a.ended:
		t.Errorf("the agent ended with its reader: %v", a.cmd.ProcessState)
	case <-time.After(5 * time.Second): // a hundred lines are lost meanwhile
		items, err := a.probes("")
		if err != nil || len(items) != 1 || items[0].Result != "success" {
			t.Errorf("without a reader: %+v, %v", items, err)
		}
		table.add("end after SIGTERM", "%v", a.end(t).Round(time.Millisecond))
	}
	if _, err := os.Stat(graceful); err != nil {
		t.Error("the container had no grace period: ", err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%d processes outlive the agent", len(left))
	}
	table.add("passed", "%v", !t.Failed())
}
