// Package egress decides where the guest of a plugin may dial and what it may look up.
//
// Read dial.go first, from [Policy.Resolve]: it parses the URL and looks names up. It also decides on
// sockets, and whether a literal address is the target's. decide.go has the decisions that need no
// look-up. The host dials the address that was checked, never a name, so a second look-up cannot
// change the decision. A capability that is missing as a whole is refused earlier, at load or in the
// guest's call.
//
// The decisions ask [Permissions]:
//
//	allows      may this address be dialled: requested and granted, denials aside?
//	denies      which denial matches this address or name?
//	spellsOut   does a grant spell out this address? For metadata by a literal address, for
//	            loopback also by a name or a range, never by a wildcard.
//	mayResolve  may this name be looked up in order to dial it?
//	mayLookUp   may the plugin ask prober_v1_dns for this name?
package egress
