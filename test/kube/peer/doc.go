// Package peer tests that prober does not have the defects of OpenKruise's PodProbeMarker. The table in
// defects_test.go lists the defects by number. Each has a test on a real cluster, or names faster tests in
// other packages, which must exist.
//
// docs/migration/podprobemarker.md shows its users how to migrate; example_test.go tests the example there.
package peer
