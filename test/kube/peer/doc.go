// Package peer has the defects that OpenKruise's PodProbeMarker has: for each a test that prober passes, on a
// real cluster. The table in defects_test.go has all of them by number. Where a cluster adds nothing, it names
// faster tests of other packages, and checks that they exist.
//
// docs/migration/podprobemarker.md says what its users write for prober; example_test.go checks that.
package peer
