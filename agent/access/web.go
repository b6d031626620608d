package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/regular"
)

// ErrExposed matches the error for an address that other hosts can connect to without TLS and
// credentials.
var ErrExposed = errors.New("TLS and credentials are required where other hosts can connect")

// maxWebConfig is the limit of the file of [Web], in bytes.
const maxWebConfig = 1 << 20

// Web configures how an agent serves HTTP over TCP.
type Web struct {
	ConfigFile string // TLS, users and headers, in the format of exporter-toolkit; "": plain HTTP
	Insecure   bool   // other hosts may connect without TLS and credentials
}

// Check returns an error if ConfigFile is invalid, or if other hosts can connect to addr without TLS and
// credentials.
func (w Web) Check(addr net.Addr) error {
	config, err := w.read()
	if err == nil && w.ConfigFile != "" {
		err = web.Validate(w.ConfigFile)
	}
	if err != nil {
		return fmt.Errorf("web config %s: %w", w.ConfigFile, err)
	}
	return w.covers(addr, config)
}

// CheckAgain returns an error if ConfigFile does not satisfy the requirements of addr any more. It is called
// for each request, as ConfigFile is read for each connection.
func (w Web) CheckAgain(addr net.Addr) error {
	if w.Insecure || isLoopback(addr) {
		return nil
	}
	config, err := w.read()
	if err != nil {
		return fmt.Errorf("web config %s: %w", w.ConfigFile, err)
	}
	return w.covers(addr, config)
}

func (w Web) covers(addr net.Addr, config web.Config) error {
	tls := config.TLSConfig
	credentials := len(config.Users) > 0 || tls.ClientAuth == "RequireAndVerifyClientCert"
	switch {
	case w.Insecure, isLoopback(addr):
		return nil
	case w.ConfigFile == "":
		return fmt.Errorf("listen on %s: %w", addr, ErrExposed)
	case !tls.IsEnabled():
		return fmt.Errorf("listen on %s: %w: %s has no tls_server_config", addr, ErrExposed, w.ConfigFile)
	case !credentials:
		return fmt.Errorf("listen on %s: %w: %s has no basic_auth_users, and no client_auth_type RequireAndVerifyClientCert",
			addr, ErrExposed, w.ConfigFile)
	}
	return nil
}

// read returns the contents of ConfigFile. It opens the files that ConfigFile refers to, as a file that
// blocks would block the server.
func (w Web) read() (config web.Config, err error) {
	if w.ConfigFile == "" {
		return config, nil
	}
	data, err := regular.Read(w.ConfigFile, maxWebConfig)
	if err != nil {
		return config, err
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return config, err
	}
	config.TLSConfig.SetDirectory(filepath.Dir(w.ConfigFile))
	for _, path := range []string{config.TLSConfig.TLSCertPath, config.TLSConfig.TLSKeyPath, config.TLSConfig.ClientCAs} {
		if path == "" {
			continue
		}
		f, err := regular.Open(path)
		if err != nil {
			return config, err
		}
		_ = f.Close()
	}
	return config, nil
}

// hasUsers reports whether ConfigFile has users, so that passwords are checked.
func (w Web) hasUsers() (bool, error) {
	config, err := w.read()
	return len(config.Users) > 0, err
}

// TLS reports whether ConfigFile enables TLS.
func (w Web) TLS() bool {
	config, err := w.read()
	return err == nil && config.TLSConfig.IsEnabled()
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// warnings drops log records below warning level.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
