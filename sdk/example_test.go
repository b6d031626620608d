//go:build !wasip1

package sdk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// A plugin that makes HTTP requests with the host, and remembers the length of a queue.
func queue(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	resp, err := sdk.HTTP(ctx, sdk.HTTPRequest{URL: "http:///queue"}) // a URL of the target
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	length, _ := sdk.Lookup(body, "length")
	before, err := r.KV().Get("length")
	if err != nil {
		return probe.Outcome{}, err
	}
	now, _ := strconv.Atoi(length)
	if was, _ := strconv.Atoi(string(before)); before != nil && now > was {
		return sdk.Warningf("the queue grew from %d to %d", was, now), r.KV().Set("length", []byte(length))
	}
	return sdk.Successf("the queue has %d", now), r.KV().Set("length", []byte(length))
}

// A test replaces the host of a native plugin.
func ExampleWithHost() {
	ctx := sdk.WithHost(context.Background(), sdk.Host{
		KV: map[string][]byte{"length": []byte("3")},
		RoundTrip: func(req *http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(`{"length": 7}`))
			return &http.Response{StatusCode: http.StatusOK, Body: body, Request: req}, nil
		},
	})
	target := probe.Target{Host: "web.internal", Port: 80}
	h, err := sdk.Native(sdk.Func(queue)).Prepare([]byte(`{}`), target)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		out, err := h.Probe(ctx, probe.Request{Target: target})
		fmt.Println(out.Result, out.Output, err)
	}
	// Output:
	// warning the queue grew from 3 to 7 <nil>
	// success the queue has 7 <nil>
}
