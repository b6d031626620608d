package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/access"
)

// Limits that keep peers from exhausting the memory of a small container.
const (
	maxConns      = 128
	maxStreams    = 8 // gRPC streams on one connection
	maxHeader     = 8 << 10
	shutdownGrace = 5 * time.Second
)

// Serve serves on listener until ctx ends. Then it completes the requests in progress.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC
	server := &http.Server{
		Handler: s, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: maxHeader, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	var ending sync.WaitGroup
	serving, ended := context.WithCancel(ctx)
	ending.Go(func() {
		<-serving.Done()
		grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	err := access.Web{}.Serve(listener, server, access.ServeConfig{
		Log:   s.cfg.Log,
		First: func(next http.Handler) http.Handler { return next },
		// The kubelet requests every path.
		Health: func(string) bool { return true },
		Crowded: func(from string) {
			s.cfg.Log.Debug("connection closed for another one", "peer", from)
		},
		Conns: maxConns,
	})
	ended()
	ending.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
