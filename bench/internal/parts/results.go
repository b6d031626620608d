package parts

import (
	"context"
	"fmt"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kresults "k8s.io/kubernetes/pkg/kubelet/prober/results"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// ResultsJob is the name of the job of [ServeResults].
const ResultsJob = "results"

// ResultsRequest requests changes of decided results while a reader does not read.
type ResultsRequest struct {
	Subject    string // "kubelet" or "prober"
	Containers int
	Changes    int
	Seconds    int // a change that has not ended after this time counts as lost
}

// ServeResults is the job of a child. Its answer is a map of figures.
func ServeResults(ctx context.Context, c *child.Conn) error {
	var r ResultsRequest
	if err := c.Next(&r); err != nil {
		return err
	}
	var set func(container string, failed bool)
	switch r.Subject {
	case "kubelet":
		set = kubeletResults()
	case "prober":
		set = proberResults(ctx)
	default:
		return fmt.Errorf("unknown subject %q", r.Subject)
	}
	return c.Reply(measureResults(&r, set))
}

func measureResults(r *ResultsRequest, set func(container string, failed bool)) map[string]record.Number {
	ids := make([]string, r.Containers)
	for i := range ids {
		ids[i] = fmt.Sprintf("containerd://%064d", i)
	}
	took := make(chan time.Duration, r.Changes)
	go func() {
		defer close(took)
		for i := range r.Changes {
			start := time.Now()
			set(ids[i%len(ids)], i/len(ids)%2 == 1)
			took <- time.Since(start)
		}
	}()
	h, over := new(measure.Histogram), time.After(time.Duration(r.Seconds)*time.Second)
	for done := false; !done; {
		select {
		case d, ok := <-took:
			if done = !ok; ok {
				h.Add(d)
			}
		case <-over: // Set blocks
			done = true
		}
	}
	h.Lose(uint64(r.Changes) - h.Count())
	return map[string]record.Number{
		"changes": record.Number(h.Count()), "lost": record.Number(h.Lost()),
		"p50-us": record.Number(h.Milliseconds(0.5) * 1000), "p99-us": record.Number(h.Milliseconds(0.99) * 1000), "max-us": record.Number(h.Milliseconds(1) * 1000),
	}
}

// kubeletResults returns Set of a kubelet's cache whose channel has no reader.
func kubeletResults() func(container string, failed bool) {
	cache, pod := kresults.NewManager(), &v1.Pod{}
	return func(container string, failed bool) {
		result := kresults.Success
		if failed {
			result = kresults.Failure
		}
		cache.Set(kubecontainer.ParseContainerID(container), result, pod)
	}
}

// proberResults returns Set of a prober's cache with a subscription whose reader stopped after one update.
func proberResults(ctx context.Context) func(container string, failed bool) {
	cache, subject := results.New(probe.Liveness), new(results.Subject)
	cache.Set("first", results.Success, subject, results.Cause{Reason: results.Initial})
	next, _ := iter.Pull(results.Subscribe(ctx, cache))
	next()
	return func(container string, failed bool) {
		result := results.Success
		if failed {
			result = results.Failure
		}
		cache.Set(container, result, subject, results.Cause{})
	}
}
