package archtest_test

import "testing"

const module = "github.com/daeace23/prober"

// atRoot has a test run in the root of the module. TestMain could not: what happens before it runs the tests is not
// seen by the cache of results, which would then know no file that they read.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}
