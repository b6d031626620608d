package attempt_test

import (
	"os"
	"testing"

	"github.com/daeace23/prober/bench/internal/attempt"
	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{target.Job: target.Serve, attempt.JobName: attempt.Serve, attempt.PluginJob: attempt.ServePlugins})
	os.Exit(m.Run())
}

// TestEverySubjectSucceeds makes attempts of every kind with every subject, against the servers.
func TestEverySubjectSucceeds(t *testing.T) {
	server, err := target.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, kind := range []string{"http", "https", "tcp", "grpc", "exec"} {
		t.Run(kind, func(t *testing.T) {
			var runs []record.Run
			request := attempt.Request{Kind: kind, C: 4, Rounds: 2, Seconds: 0.05, Ports: server.Ports}
			if err := child.Run(t.Context(), attempt.JobName, request, &runs); err != nil {
				t.Fatal(err)
			}
			if len(runs) != 2*len(attempt.SubjectsOf(kind)) || runs[0].Subject == runs[3].Subject {
				t.Errorf("the subjects do not alternate: %+v", runs)
			}
			for _, r := range runs {
				if r.Error != "" || r.Figures["attempts"] < 1 || r.Figures["cpu-us"] <= 0 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}
