package clientcmd

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
)

func sloResource() *resource {
	return &resource{
		name: "slos", aliases: []string{"slo"}, short: "Show SLOs of prober.yaml: error budgets and burn rates", args: "[NAME]...",
		example: "  prober get slos\n  prober get slos shop -o wide\n  prober get slos -w",
		columns: []column{
			{head: "NAME"}, {head: "OBJECTIVE"}, {head: "WINDOW"}, {head: "AVAILABILITY"}, {head: "BUDGET LEFT"}, {head: "BURN 1H"}, {head: "BURN 6H"}, {head: "FAILING"},
			{"BURN 5M", true}, {"BURN 30M", true}, {"BURN 3D", true}, {"BUDGET", true}, {"SPENT", true}, {"LEFT", true}, {"MEASURED SINCE", true},
		},
		list: listSLOs, every: 10 * time.Second,
	}
}

func listSLOs(ctx context.Context, c *client.Client, s *selection) ([]item, error) {
	all, err := c.SLOs(ctx)
	var items []item
	for i := range all {
		if s.selectsName(all[i].Name) {
			items = append(items, sloItem(&all[i]))
		}
	}
	return items, err
}

func sloItem(o *api.SLO) item {
	burn := make(map[string]string)
	for _, b := range o.BurnRates {
		burn[b.Window] = burnRate(b.Rate)
	}
	since := "-"
	if !o.Since.IsZero() {
		since = o.Since.Local().Format("2006-01-02 15:04")
	}
	b := &o.Budget
	left := lasted(math.Abs(b.LeftSeconds))
	if b.LeftSeconds < 0 {
		left = "-" + left
	}
	return item{
		name: o.Name, object: o,
		cells: []string{
			o.Name, strconv.FormatFloat(o.Objective, 'f', -1, 64) + "%", o.Window, (&api.StateSeconds{Success: o.GoodSeconds, Failure: o.BadSeconds}).Uptime(), budgetLeft(b.Left), burn["1h"], burn["6h"],
			fmt.Sprintf("%d/%d", o.Failing, o.Probes), burn["5m"], burn["30m"], burn["3d"], lasted(b.TotalSeconds), lasted(b.SpentSeconds), left, since,
		},
	}
}

// budgetLeft formats a fraction of the budget. It is rounded down.
func budgetLeft(left *float64) string {
	if left == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", math.Floor(*left*100+1e-9))
}

// burnRate formats a burn rate.
func burnRate(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", *rate), ".0") + "x"
}
