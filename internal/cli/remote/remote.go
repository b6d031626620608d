// Package remote connects commands with a running agent: [Flags] select the agent, also for shell completion,
// and [Failed] converts the error of a request.
package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/outbound"
)

// ExitUnreachable is the exit code of a command whose agent does not respond.
const ExitUnreachable = 3

// Flags are the flags that select the agent of a command.
type Flags struct {
	server, tokenFile         string
	caFile, certFile, keyFile string
	timeout                   time.Duration
}

// defaultTimeout is the default timeout of a request.
const defaultTimeout = 10 * time.Second

// Add adds the flags to c.
func (f *Flags) Add(c *cobra.Command) {
	c.PersistentFlags().StringVar(&f.server, "server", "", "the agent: unix:PATH of its socket, HOST:PORT, or a URL (default: the socket of this host's agent)")
	c.PersistentFlags().StringVar(&f.tokenFile, "token-file", "", "file with the agent's token, for HOST:PORT and URLs")
	c.PersistentFlags().StringVar(&f.caFile, "ca-file", "", "file with the trusted certificate authorities, in PEM, for https URLs (default: the system's)")
	c.PersistentFlags().StringVar(&f.certFile, "cert-file", "", "file with a client certificate, in PEM, for https URLs")
	c.PersistentFlags().StringVar(&f.keyFile, "key-file", "", "file with the key of --cert-file (default: that file)")
	c.PersistentFlags().DurationVar(&f.timeout, "request-timeout", defaultTimeout, "timeout of a request to the agent; 0 for no limit")
}

// Client returns a client of the agent.
func (f *Flags) Client(env *command.Env) (*client.Client, error) {
	cfg := client.Config{Server: cmp.Or(f.server, "unix:"+localSocket(env)), Timeout: f.timeout}
	if f.tokenFile != "" && !strings.HasPrefix(cfg.Server, "unix:") {
		token, err := access.TokenFile(f.tokenFile)
		if err == nil {
			cfg.Token, err = token.Read()
		}
		if err != nil {
			return nil, command.Usage("", "--token-file: %w", err)
		}
	}
	if strings.HasPrefix(cfg.Server, "https://") {
		tlsConfig, err := f.tls()
		if err != nil {
			return nil, err
		}
		cfg.Transport = outbound.Transport(tlsConfig)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, command.Usage("", "--server %w", err)
	}
	return c, nil
}

// Outbound returns a client for URLs outside of the agent's API, with the flags of certificates and the
// timeout. It sends no credentials of the agent, and a redirect is the response.
func (f *Flags) Outbound() (*outbound.Client, error) {
	if _, err := f.tls(); err != nil {
		return nil, err
	}
	return outbound.New(outbound.Config{
		TLS:     &outbound.TLS{CA: f.caFile, Cert: f.certFile, Key: cmp.Or(f.keyFile, f.certFile)},
		Timeout: f.timeout,
	}), nil
}

// completionTimeout is the timeout of a request to the agent during shell completion.
const completionTimeout = time.Second

// Complete returns the completion of arguments by names, which asks the agent.
func (f *Flags) Complete(env *command.Env, names func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if env.SetFlags(cmd.Flags()) != nil {
			return nil, none
		}
		c, err := f.Client(env)
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		all := slices.DeleteFunc(names(ctx, c, cmd, args), func(n string) bool {
			return n == "" || !strings.HasPrefix(n, word) || slices.Contains(args, n) || explain.OneLine(n) != n
		})
		slices.Sort(all)
		return slices.Compact(all), none
	}
}

// tls returns the settings of TLS; nil for the default.
func (f *Flags) tls() (*tls.Config, error) {
	if f.caFile == "" && f.certFile == "" && f.keyFile == "" {
		return nil, nil
	}
	if f.certFile == "" && f.keyFile != "" {
		return nil, command.Usage("", "--key-file: --cert-file is not set")
	}
	files := outbound.TLS{CA: f.caFile, Cert: f.certFile, Key: cmp.Or(f.keyFile, f.certFile), ReadFile: os.ReadFile} // a file may be a pipe
	cfg, err := files.Config()
	if e, ok := errors.AsType[*outbound.FileError](err); ok {
		return nil, command.Usage("", "--%s-file: %w", e.Field, e.Err)
	}
	if err != nil {
		return nil, command.Usage("", "--cert-file: %w", err)
	}
	return cfg, nil
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

// Failed returns the error of a request to an agent, with its exit code: 3 if the agent did not
// respond, else 1. It returns nil for nil, and an [*command.Exit] unchanged.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*command.Exit](err); ok {
		return err
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = explain.OneLine(lines[i]) // the text of a response
	}
	e := &command.Exit{Code: command.ExitFailed, Err: errors.New(strings.Join(lines, "\n"))}
	if _, ok := errors.AsType[*client.UnansweredError](err); ok {
		e.Code = ExitUnreachable
		e.Hint = "set --server to the address of the agent: unix:PATH with the path of its socket, HOST:PORT, or a URL"
	}
	if s, ok := errors.AsType[*client.StatusError](err); ok && s.Status == http.StatusUnauthorized {
		e.Hint = "set --token-file to the file with the agent's token, or put a user of its web config into the URL, as in https://NAME:PASSWORD@HOST; without --server, the agent's socket is used, which needs no credentials"
	}
	return e
}
