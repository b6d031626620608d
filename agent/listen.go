package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/internal/regular"
)

// listen opens the listeners of the HTTP server, and removes an old address file.
func (a *Agent) listen(ctx context.Context) (err error) {
	if err := a.configureAccess(); err != nil {
		return err
	}
	if a.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", a.cfg.Listen); err != nil {
		return err
	}
	a.guard.Addr = a.listener.Addr()
	a.cfg.listeners = append(a.cfg.listeners, a.guard.Addr)
	if err := a.listenSocket(ctx); err != nil {
		return err
	}
	if a.cfg.AddrFile != "" {
		if err := os.Remove(a.cfg.AddrFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("address file: %w", err)
		}
	}
	return nil
}

// configureAccess reads the configuration of access control.
func (a *Agent) configureAccess() (err error) {
	a.guard.Web = access.Web{ConfigFile: a.cfg.WebConfigFile, Insecure: a.cfg.InsecureListen}
	allowed := a.cfg.AllowedHosts
	if name, _, err := net.SplitHostPort(a.cfg.Listen); err == nil && name != "" {
		allowed = append([]string{name}, allowed...)
	}
	if a.guard.Hosts, err = access.ParseHosts(allowed); err != nil {
		return fmt.Errorf("allowed host %w", err)
	}
	a.guard.Token = access.NewToken()
	if a.cfg.TokenFile != "" {
		a.guard.Token, err = access.TokenFile(a.cfg.TokenFile)
	}
	return err
}

// listenSocket opens the unix socket, if one is configured.
func (a *Agent) listenSocket(ctx context.Context) (err error) {
	if a.cfg.Socket == "" {
		return nil
	}
	a.socket, err = access.ListenSocket(ctx, a.cfg.Socket)
	if err != nil {
		a.socket = nil
		if a.cfg.SocketOptional {
			a.log.Warn("the unix socket for actions is not available; --socket sets another path", "error", err.Error())
			return nil
		}
		return err
	}
	a.guard.Socket = a.socket.Path()
	a.cfg.listeners = append(a.cfg.listeners, a.socket.Addr())
	return nil
}

// announce writes the address of the HTTP server to the address file and the log.
func (a *Agent) announce() error {
	address := a.listener.Addr().String()
	if a.cfg.AddrFile != "" {
		if err := regular.ReplaceBytes(a.cfg.AddrFile, 0o600, []byte(address)); err != nil {
			return fmt.Errorf("address file: %w", err)
		}
	}
	scheme, attrs := "http", []any{"address", address}
	if a.guard.Web.TLS() {
		scheme, attrs = "https", append(attrs, "tls", true)
	}
	a.log.Info("listening", attrs...)
	if a.socket != nil {
		a.log.Info("taking actions", "socket", a.socket.Path())
	}
	if a.cfg.ShowToken && a.guard.Token.Value() != "" {
		// Browsers do not send the part after #. Stderr is a terminal, see [Config].ShowToken.
		fmt.Fprintf(a.stderr, "prober: %s://%s/#token=%s\n", scheme, address, a.guard.Token.Value())
	}
	return nil
}
