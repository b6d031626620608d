// Package browser tests the status page in a real Chromium: the binary bin/prober, with servers and
// plugins that fail in every way, is looked at as a person would. Read tab_test.go first, then
// causes_test.go.
//
//   - agent_test.go starts `prober run`; world_test.go has what it probes.
//   - tab_test.go opens tabs, waits for conditions, and collects what a page may not do: errors,
//     violations of its policy, requests to other hosts.
//   - fake_test.go is an agent with made-up data: for the pictures of the documents, and for answers
//     that no agent gives.
//
// It is a module of its own, since only these tests use chromedp. test/e2e/run installs Chromium and
// axe-core, and runs it.
package browser
