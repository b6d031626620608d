package plugincmd

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/client"

	"github.com/daeace23/prober/internal/cli/command"
)

// serverFlags say which agent a command asks.
type serverFlags struct{ server, tokenFile string }

func (s *serverFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.server, "server", "", "the agent: unix:PATH of its socket, HOST:PORT, or a URL (default: the socket of this host's agent)")
	f.StringVar(&s.tokenFile, "token-file", "", "file with the agent's token, for HOST:PORT and URLs")
}

// newClient returns a client of the agent that the flags name, or of this host's.
func newClient(env *command.Env, s serverFlags) (*client.Client, error) {
	cfg := client.Config{Server: cmp.Or(s.server, "unix:"+localSocket(env))}
	if s.tokenFile != "" && !strings.HasPrefix(cfg.Server, "unix:") {
		token, err := access.TokenFile(s.tokenFile)
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

// localSocket returns the socket of the agent that this user runs, else of the one that root
// runs.
func localSocket(env *command.Env) string {
	own := access.DefaultSocket(env.LookupEnv)
	if _, err := os.Lstat(own); err != nil {
		if _, err := os.Lstat(access.SystemSocket); err == nil {
			return access.SystemSocket
		}
	}
	return cmp.Or(own, access.SystemSocket)
}

// failed is the exit of a command that the agent did not do.
func failed(err error) error {
	return &command.Exit{Code: command.ExitFailed, Err: err, Hint: hintOf(err)}
}

// hintOf says what may help where an agent did not do what it was asked.
func hintOf(err error) string {
	if _, away := errors.AsType[*net.OpError](err); away {
		return "--server says where the agent is: unix:PATH as its --socket has it, HOST:PORT, or a URL"
	}
	if s, ok := errors.AsType[*client.StatusError](err); ok && s.Status == http.StatusUnauthorized {
		return "--token-file has the agent's token; without --server the agent's socket is asked, which needs none"
	}
	return ""
}
