package sdkhttp

import "net/http"

func init() { http.DefaultTransport = Transport() }
