// Package egress decides where the guest of a plugin may dial and what it may look up.
//
// Read decide.go first: it says when an address is allowed or refused. dial.go brings a dial
// there: it reads the URL, decides whether the name may be looked up, looks it up, and has
// every address decided on. What is dialled is an address that was decided on, so a name
// that leads elsewhere the next time is decided on again.
package egress
