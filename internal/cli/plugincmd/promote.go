package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
)

const promoteTimeout = time.Minute // preparing all probes can take long

func newPromote(env *command.Env) *cobra.Command {
	var server, tokenFile string
	c := &cobra.Command{
		Use:   "promote NAME [--server ADDR]",
		Short: "Replace a plugin by the version that runs in its shadow",
		Long: "Promote asks a running agent to replace a plugin by the version that runs in its shadow, which\n" +
			"has shadow: true in prober.yaml. Install that version in the place of the old one, too: after\n" +
			"its next start the agent runs what its files say.",
		Example:           "  prober plugin promote redis\n  prober plugin promote redis --server unix:/run/shop/prober.sock\n  prober plugin promote redis --server 127.0.0.1:19876 --token-file token",
		Args:              command.Arguments("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := newClient(env, server, tokenFile)
			if err != nil {
				return err
			}
			return promote(cmd.Context(), env, client, args[0])
		},
	}
	c.Flags().StringVar(&server, "server", "", "the agent: unix:PATH of its socket, HOST:PORT, or a URL (default: the socket of this host's agent)")
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with the agent's token, for HOST:PORT and URLs")
	return c
}

func promote(ctx context.Context, env *command.Env, client *client.Client, name string) error {
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	status, err := client.Promote(ctx, name)
	if err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: agentHint(err)}
	}
	fmt.Fprintf(env.Stdout, "plugin %q is version %s now, generation %d, of %d probes\n", status.Name, status.Version, status.Generation, status.Probes)
	return nil
}

// newClient returns a client of the agent at server. "" is the agent of this host.
func newClient(env *command.Env, server, tokenFile string) (*client.Client, error) {
	cfg := client.Config{Server: cmp.Or(server, "unix:"+localSocket(env))}
	if tokenFile != "" && !strings.HasPrefix(cfg.Server, "unix:") {
		token, err := access.TokenFile(tokenFile)
		if err == nil {
			cfg.Token, err = token.Read()
		}
		if err != nil {
			return nil, command.Usage("", "--token-file: %w", err)
		}
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, command.Usage("", "--server %w", err)
	}
	return c, nil
}

// localSocket returns the socket of the agent that this user runs. If there is none, it returns
// the socket of root's agent.
func localSocket(env *command.Env) string {
	own := access.DefaultSocket(env.LookupEnv)
	if _, err := os.Lstat(own); err != nil {
		if _, err := os.Lstat(access.SystemSocket); err == nil {
			return access.SystemSocket
		}
	}
	return cmp.Or(own, access.SystemSocket)
}

// agentHint returns what may help against the error of a request to an agent.
func agentHint(err error) string {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return "--server says where the agent is: unix:PATH as its --socket has it, HOST:PORT, or a URL"
	}
	if s, ok := errors.AsType[*client.StatusError](err); ok && s.Status == http.StatusUnauthorized {
		return "--token-file has the agent's token; without --server the agent's socket is asked, which needs none"
	}
	return ""
}
