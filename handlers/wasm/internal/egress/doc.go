// Package egress decides where the guest of a plugin may dial and what it may look up.
//
// Read decide.go first: it decides whether an address is allowed. dial.go prepares the decision:
// it parses the URL, decides whether the name may be looked up, and looks it up. The host dials
// an address that was decided on, never a name, so another look-up cannot change the decision.
package egress
