package program_test

import (
	"os"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/peer/program"
)

func TestGroupBoundsProcesses(t *testing.T) {
	g := program.NewGroup()
	defer g.Close()
	c := &program.Command{Args: []string{os.Args[0], "-test.run=^$"}}
	report := func(err error) { t.Error(err) }
	for i := range 17 {
		p, err := g.Start(c, "tcp", report)
		if i == 16 {
			if err == nil || err.Error() != "more than 16 processes in one attempt" {
				t.Errorf("got %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		p.Pipe(func(_ []byte, err error) {
			if err != nil {
				end <- err
			}
		}).Close()
		<-end
		<-p.Ended
	}
	g.Close()
	if _, err := g.Start(c, "tcp", report); err == nil || err.Error() != "the attempt has ended" {
		t.Errorf("after Close: got %v", err)
	}
}
