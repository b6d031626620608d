package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent"
)

const (
	promoteTimeout = time.Minute // to prepare all probes may take a while
	maxAnswer      = 1 << 20
)

func newPluginPromote(env *Env) *cobra.Command {
	var server string
	c := &cobra.Command{
		Use:     "promote NAME [--server ADDR]",
		Short:   "Let the version that runs beside a plugin take its place",
		Long:    "Promote asks a running agent to go over to the version of a plugin that runs beside it, as its\nprober.yaml says with shadow: true. The agent's next start finds what its files say: put the\nversion in the place of the old one, too.",
		Example: "  prober plugin promote redis\n  prober plugin promote redis --server 127.0.0.1:19876",
		Args:    arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.promote(cmd.Context(), server, args[0])
		},
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Flags().StringVar(&server, "server", agent.DefaultListen, "where the agent listens: HOST:PORT, or a URL")
	return c
}

func (env *Env) promote(ctx context.Context, server, name string) error {
	ctx, stop := env.interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	base, err := url.Parse(server)
	if err != nil || base.Host == "" {
		return usage("", "--server %s: want HOST:PORT, or a URL", server)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("api", "v1", "plugins", url.PathEscape(name), "promote").String(), nil)
	if err != nil {
		return usage("", "--server %s: %w", server, err)
	}
	var status agent.PluginStatus
	if err := ask(req, &status); err != nil {
		hint := ""
		if _, away := errors.AsType[*net.OpError](err); away {
			hint = "--server says where the agent listens"
		}
		return &exit{code: exitFailed, err: err, hint: hint}
	}
	fmt.Fprintf(env.Stdout, "plugin %q is version %s now, generation %d, of %d probes\n", status.Name, status.Version, status.Generation, status.Probes)
	return nil
}

// ask sends a request to an agent and reads its answer.
func ask(req *http.Request, into any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return unanswered(req, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return unanswered(req, err)
	}
	if res.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		_ = json.Unmarshal(body, &failed) // another server may answer anything
		return fmt.Errorf("%s: %s", req.URL.Host, cmp.Or(failed.Error, res.Status))
	}
	return json.Unmarshal(body, into)
}

// unanswered is why a request came to no answer. HTTP/2 says that it was ended, and not by what.
func unanswered(req *http.Request, err error) error {
	if ctx := req.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // which names the address
	}
	return err
}
