// Package sdkhttp makes net/http work inside a guest. It is a package of its own
// because net/http triples the size of a guest, and most probes do without: [sdk.HTTP]
// is enough for a request or two.
//
// To import it is enough: in a guest it replaces http.DefaultTransport, which would
// talk to Go's fake network there and call every server down. [Transport] is net/http
// itself over [sdk.Dial], and needs the capability "net"; [ByHost] leaves the requests to
// the host, and needs the capability "http".
package sdkhttp

import (
	"net/http"
	"time"

	"github.com/daeace23/prober/sdk"
)

// Transport returns a transport for one probe: every request has a connection of its
// own, dialled with [sdk.Dial].
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:           sdk.Dial,
		DisableKeepAlives:     true,
		ExpectContinueTimeout: time.Second,
	}
}
