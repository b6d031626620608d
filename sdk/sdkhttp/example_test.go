//go:build !wasip1

package sdkhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/sdkhttp"
)

// A plugin with a net/http client whose requests are made by the host.
func ready(ctx context.Context, _ *sdk.Request) (probe.Outcome, error) {
	client := &http.Client{Transport: sdkhttp.ByHost{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web.internal/ready", nil)
	if err != nil {
		return probe.Outcome{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sdk.Failuref("it answers %s", resp.Status), nil
	}
	return sdk.Successf("it is ready"), nil
}

// A test replaces the host.
func ExampleByHost() {
	ctx := sdk.WithHost(context.Background(), sdk.Host{RoundTrip: func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
	}})
	h, err := sdk.Native(sdk.Func(ready)).Prepare([]byte(`{}`), probe.Target{Host: "web.internal"})
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(ctx, probe.Request{})
	fmt.Println(out.Result, out.Output, err)
	// Output: failure it answers 503 Service Unavailable <nil>
}
