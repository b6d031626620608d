package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/load"
	"github.com/daeace23/prober/bench/internal/parts"
	"github.com/daeace23/prober/bench/internal/record"
)

// The loads of scrape.
var (
	unscraped = param("load", "not scraped")
	scraped   = param("load", "scraped")
)

const (
	scrapeEvery  = 2 * time.Second
	seriesRounds = 3 // scrapes in a round
)

// series measures the metrics of many probes, and scrapes of them.
func series() Scenario {
	const few, many = 10_000, 100_000
	goal := func(text, figure, over string, atMost float64) Goal {
		return Goal{Text: text, Figure: figure, Subject: load.Prober, Over: over, Params: param("probes", many), AtMost: atMost}
	}
	fewer := goal("CPU of a scrape of 10,000 ≤ 50 ms", "scrape-cpu-ms", "", 50)
	fewer.Params = param("probes", few)
	return Scenario{
		Name: "series", Title: "Metrics of 100,000 probes", Rounds: 2,
		Text: "The series without probes, also for 10,000. The kubelet's are its vectors of client_golang, with the label maps of its workers. Each is updated once and scraped, three times a round. " +
			"Extra memory is the peak of a scrape above the memory before it.",
		Why:     "What keeps it from the goal: a scrape has the decided state of each probe, and the kubelet's has not. prober_probe_state takes a quarter of the time, the gates 3 %; without them it would be 0.04.",
		Columns: []Column{{"bytes", "B a probe"}, {"update-ns", "ns an update"}, {"update-allocs", "allocations"}, {"scrape-cpu-ms", "CPU ms a scrape"}, {"scrape-extra-mb", "extra MB"}},
		Ratio:   "scrape-cpu-ms", Peer: load.Kubelet,
		Goals: []Goal{
			goal("≤ 200 B a probe", "bytes", "", 200), goal("≤ 100 ns an update", "update-ns", "", 100), goal("no allocation an update", "update-allocs", "", 0.01),
			goal("CPU of a scrape ≤ 1/20 of kubelet", "scrape-cpu-ms", load.Kubelet, 0.05), goal("< 20 MB extra", "scrape-extra-mb", "", 20), fewer,
		},
		Run: func(ctx context.Context, e *Env) error {
			for round := range e.Rounds {
				for _, subject := range inTurn(round, load.Kubelet, load.Prober) {
					for _, n := range []int{few, many} {
						if err := e.series(ctx, subject, n, round+1); err != nil {
							return err
						}
					}
				}
			}
			return nil
		},
	}
}

// scrape measures the effect of scrapes on ticks.
func scrape() Scenario {
	return Scenario{
		Name: "scrape", Title: "100,000 probes at 10 s while they are scraped", Rounds: 1, Seconds: 20,
		Text:    "Each manager without scrapes, and then while another process scrapes it with gzip, as Prometheus does, and pauses of 2 s.",
		Columns: []Column{{"scrapes", "scrapes"}, {"cpu-percent", "CPU %"}, {"p99-ms", "lag p99 ms"}, {"own-p99-ms", "p99 ms by its schedule, ≤"}, {"max-ms", "max ms"}, {"lost", "lost"}, {"run-mb", "MB"}},
		Ratio:   "cpu-percent", Peer: load.Kubelet,
		Goals: []Goal{
			{Text: "p99 lag while scraped ≤ 15 ms", Figure: "p99-ms", Subject: load.Prober, Params: scraped, AtMost: 15},
			{Text: "the same by its schedule", Figure: "own-p99-ms", Subject: load.Prober, Params: scraped, AtMost: 15},
		},
		Run: func(ctx context.Context, e *Env) error {
			for round := range e.Rounds {
				for _, subject := range inTurn(round, load.Kubelet, load.Prober) {
					if err := e.scrapeManager(ctx, subject, e.size(100_000), round+1); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

func (e *Env) series(ctx context.Context, subject string, n, round int) error {
	e.Logf("%s: series of %d probes, round %d", subject, n, round)
	var runs []record.Run
	if err := child.Run(ctx, parts.SeriesJob, parts.SeriesRequest{Subject: subject, Probes: e.size(n), Scrapes: seriesRounds}, &runs); err != nil {
		return err
	}
	for _, r := range runs {
		e.emit(subject, (round-1)*seriesRounds+r.Round, param("probes", n), r.Figures, nil)
	}
	return nil
}

// scrapeManager measures one manager without and with scrapes.
func (e *Env) scrapeManager(ctx context.Context, subject string, n, round int) error {
	e.Logf("%s: scraped with %d probes, round %d", subject, n, round)
	r := load.Request{Subject: subject, Probes: n, Period: 10, Scraped: true}
	_, err := e.loaded(ctx, r, func(p *child.Process, ready *load.Ready) (map[string]record.Number, error) {
		figures, err := e.measured(p)
		if err != nil {
			return nil, err
		}
		e.emit(subject, round, unscraped, figures, nil)
		scraping, stop := context.WithCancel(ctx)
		var scrapes int
		var failed error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			scrapes, failed = scrapeUntil(scraping, ready.Metrics)
		}()
		figures, err = e.measured(p)
		stop()
		<-ended
		if err := errors.Join(err, failed); err != nil {
			return nil, err
		}
		figures["scrapes"] = record.Number(scrapes)
		e.emit(subject, round, scraped, figures, nil)
		return figures, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		e.emit(subject, round, scraped, nil, err)
	}
	return nil
}

// scrapeUntil scrapes until ctx ends, and returns the number of scrapes. It returns an error if there is
// none.
func scrapeUntil(ctx context.Context, url string) (scrapes int, err error) {
	for ctx.Err() == nil {
		err := fetch(ctx, url)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return scrapes, err
		}
		scrapes++
		_ = pause(ctx, scrapeEvery)
	}
	if scrapes == 0 {
		return 0, errors.New("no scrape has ended")
	}
	return scrapes, nil
}

func fetch(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// reader measures the effect of a reader of results that has stopped.
func reader() Scenario {
	return Scenario{
		Name: "reader", Title: "A reader of results that has stopped", Rounds: 5, Seconds: 2,
		Text:    "100,000 changes of the decided results of 10,000 containers, whose only reader has stopped. A change that takes more than 2 s is lost: the kubelet's channel holds 20 updates, then blocks the probe.",
		Columns: []Column{{"lost", "lost"}, {"p50-us", "p50 µs"}, {"p99-us", "p99 µs"}, {"max-us", "max µs"}},
		Goals:   []Goal{{Text: "p99 ≤ 100 µs", Figure: "p99-us", Subject: load.Prober, AtMost: 100}},
		Run: func(ctx context.Context, e *Env) error {
			for round := range e.Rounds {
				for _, subject := range inTurn(round, load.Kubelet, load.Prober) {
					e.Logf("%s: results without a reader, round %d", subject, round+1)
					figures := make(map[string]record.Number)
					r := parts.ResultsRequest{Subject: subject, Containers: e.size(10_000), Changes: 10 * e.size(10_000), Seconds: e.Seconds}
					if err := child.Run(ctx, parts.ResultsJob, r, &figures); err != nil {
						return err
					}
					e.emit(subject, round+1, nil, figures, nil)
				}
			}
			return nil
		},
	}
}
