// Package access decides which HTTP requests an agent answers.
//
// hosts.go and browser.go refuse requests of other web sites, token.go and socket.go authenticate
// callers that change something, and web.go decides where an agent may listen. [Guard] applies all
// of it to a request.
package access
