// Package access decides which HTTP requests an agent serves.
//
// hosts.go and browser.go reject requests of other web sites. token.go and socket.go authenticate callers
// that change state. throttle.go limits wrong credentials, and web.go decides where an agent may listen.
// [Guard] applies all of these checks to a request; serve.go limits connections.
package access
