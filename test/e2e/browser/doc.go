// Package browser tests the status page in a real Chromium. The page belongs to the binary bin/prober, whose
// servers and plugins fail in every way. Read tab_test.go first, then causes_test.go.
//
//   - agent_test.go starts `prober run`; world_test.go has its pods, targets and plugins.
//   - tab_test.go opens tabs, waits for conditions, and collects the faults of a page: errors, violations
//     of its content security policy, requests to other hosts.
//   - fake_test.go is a fake agent: for the pictures of the documents, and for answers that no agent gives.
//
// It is a module of its own, because only these tests use chromedp. test/e2e/run installs Chromium and
// axe-core, and runs the tests.
package browser
