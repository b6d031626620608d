// Package access decides who may ask a running agent for what.
//
// hosts.go and browser.go keep web pages of other sites out, token.go and socket.go say who
// may change something, and web.go says where an agent may listen. [Guard] applies all of
// it to a request.
package access
