package docstest_test

import (
	"fmt"
	"os"
	"testing"
)

const module = "github.com/daeace23/prober"

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
