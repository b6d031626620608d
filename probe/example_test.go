package probe_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/daeace23/prober/probe"
)

// A handler returns a verdict about its target, or an error if there is none.
func ExampleHandlerFunc() {
	free := func(dir string) (percent int, err error) {
		if _, err := os.Stat(dir); err != nil {
			return 0, err
		}
		return 4, nil
	}
	disk := func(dir string) probe.Handler {
		return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			switch percent, err := free(dir); {
			case err != nil:
				return probe.Outcome{}, err // is retried, and then handled by the ErrorPolicy of the probe
			case percent < 5:
				return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf("%d%% free", percent)}, nil
			default:
				return probe.Outcome{Result: probe.Success}, nil
			}
		})
	}
	out, err := disk(".").Probe(context.Background(), probe.Request{})
	fmt.Println(out.Result, out.Output, err)

	_, err = disk("no such folder").Probe(context.Background(), probe.Request{})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// failure 4% free <nil>
	// true
}
