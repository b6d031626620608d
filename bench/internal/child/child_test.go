package child_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/daeace23/prober/bench/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{"double": double, "fail": fail})
	os.Exit(m.Run())
}

func double(_ context.Context, c *child.Conn) error {
	for {
		var n int
		if err := c.Next(&n); err != nil {
			return err
		}
		if err := c.Reply(2 * n); err != nil {
			return err
		}
	}
}

func fail(context.Context, *child.Conn) error { return errors.New("fails as it should") }

func TestChildAnswersUntilItIsClosed(t *testing.T) {
	p, err := child.Start(t.Context(), "double")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var got int
		if err := p.Ask(i, &got); err != nil || got != 2*i {
			t.Errorf("got %d, %v", got, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunReportsAChildThatFails(t *testing.T) {
	var got int
	if err := child.Run(t.Context(), "fail", 1, &got); err == nil {
		t.Error("no error")
	}
}

func TestTheEndOfTheContextKillsAChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := child.Start(ctx, "double")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for got := 0; p.Ask(1, &got) == nil; { // until it is killed: the end of its input ends it, too
	}
	if err := p.Close(); err == nil {
		t.Error("a killed child has no error")
	}
}
