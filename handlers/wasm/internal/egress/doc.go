// Package egress decides where the guest of a plugin may dial and what it may look up.
//
// Read decide.go first: it decides whether an address is allowed. dial.go prepares the decision:
// it parses the URL, decides whether the name may be looked up, and looks it up. The host dials
// an address that was decided on, never a name, so another look-up cannot change the decision.
//
// The decisions ask [Permissions]:
//
//	allows      may this address be dialled: requested and granted, denials aside?
//	denies      which denial matches this address or name?
//	spellOut    does a grant name this very address? Loopback and metadata addresses need it.
//	mayResolve  may this name be looked up in order to dial it?
//	mayLookUp   may the plugin ask prober_v1_dns for this name?
package egress
