// Package sdkhttp makes net/http work in a guest. net/http triples the size of a guest, and most
// probes do not need it: see [sdk.HTTP].
//
// Importing the package replaces http.DefaultTransport in a guest, which would use Go's fake
// network there and find every server down. [Transport] is that of net/http over [sdk.Dial], and
// needs the capability "net". [ByHost] leaves the requests to the host, and needs the capability
// "http".
package sdkhttp

import (
	"net/http"
	"time"

	"github.com/daeace23/prober/sdk"
)

// Transport returns a transport that dials a connection for every request, with [sdk.Dial].
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:           sdk.Dial,
		DisableKeepAlives:     true,
		ExpectContinueTimeout: time.Second,
	}
}
