//go:build !unix

package local_test

import "testing"

// makePipe skips t: there are no named pipes here.
func makePipe(t *testing.T, _ string) {
	t.Helper()
	t.Skip("no named pipes")
}
