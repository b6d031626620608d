//go:build linux

package beside

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// watch records the changes of conditions of the pods of a namespace, by a watch of the API server.
type watch struct {
	mu      sync.Mutex
	changes map[string][]change // by "POD CONDITION"; the first one is to true
}

// startWatch watches pods until the end of the test.
func startWatch(t *testing.T, c *bed.Cluster, namespace string, kinds ...corev1.PodConditionType) *watch {
	t.Helper()
	stream, err := c.Client.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{changes: make(map[string][]change)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range stream.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				w.record(time.Now(), pod, kinds)
			}
		}
	}()
	t.Cleanup(func() {
		stream.Stop()
		<-ended
	})
	return w
}

func (w *watch) record(at time.Time, pod *corev1.Pod, kinds []corev1.PodConditionType) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		key := pod.Name + " " + string(kind)
		before := w.changes[key]
		to := bed.HasCondition(kind, corev1.ConditionTrue)(pod)
		if to != (len(before) > 0 && before[len(before)-1].to) {
			w.changes[key] = append(before, change{at, to})
		}
	}
}

// changesOf returns the changes of a condition of a pod.
func (w *watch) changesOf(pod string, kind corev1.PodConditionType) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes[pod+" "+string(kind)])
}

// answersOf returns the answers to requests with the parameter by, from the logs of a pod: one list for each
// start of its container.
func answersOf(t *testing.T, pod *corev1.Pod, by string) (starts [][]answer) {
	t.Helper()
	for n := 0; ; n++ {
		data, err := os.ReadFile(filepath.Join("/var/log/pods", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), "app", fmt.Sprint(n, ".log")))
		if err != nil {
			return starts
		}
		var answers []answer
		for line := range strings.Lines(string(data)) {
			_, text, found := strings.Cut(line, " answered "+by+" ")
			f := strings.Fields(text)
			if !found || len(f) != 2 || !strings.HasSuffix(line, "\n") {
				continue
			}
			micros, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			answers = append(answers, answer{time.UnixMicro(micros), f[0] == "200"})
		}
		starts = append(starts, answers)
	}
}

// irregular returns how many answers did not come about one period after the previous answer.
func irregular(answers []answer) (n int) {
	for i := 1; i < len(answers); i++ {
		if gap := answers[i].at.Sub(answers[i-1].at); gap < 700*time.Millisecond || gap > 1300*time.Millisecond {
			n++
		}
	}
	return n
}

// spread formats the number and quantiles of durations.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[int(math.Ceil(share*float64(len(all)-1)))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d: least %v, median %v, p90 %v, p99 %v, most %v", len(all), at(0), at(.5), at(.9), at(.99), at(1))
}
