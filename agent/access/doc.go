// Package access decides which HTTP requests an agent answers.
//
// hosts.go and browser.go refuse requests of other web sites, token.go and socket.go authenticate
// callers that change something, throttle.go limits wrong credentials, and web.go decides where an
// agent may listen. [Guard] applies all of it to a request; serve.go limits connections.
package access
