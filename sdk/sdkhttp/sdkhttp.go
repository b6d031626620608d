// Package sdkhttp makes net/http work in a guest. net/http triples the size of a guest, and most
// probes do not need it: see [sdk.HTTP].
//
// In a guest, importing the package replaces http.DefaultTransport, which would use Go's fake network and
// reach no server. [Transport] is net/http's transport over [sdk.Dial], and needs the capability "net".
// [ByHost] makes requests with the host's HTTP client, and needs the capability "http".
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
