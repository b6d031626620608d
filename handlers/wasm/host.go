package wasm

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/internal/rawconn"
	"github.com/daeace23/prober/handlers/wasm/internal/echo"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/files"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/safelog"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const (
	startTimeout = 10 * time.Second // for _initialize when a plugin is loaded

	// interpretedStart is startTimeout for interpreted guests, which are much slower.
	interpretedStart = 2 * time.Minute
)

// Config configures a [Host]. Every field may be left zero.
type Config struct {
	// DialContext makes the connections of guests. The network is "tcp", "udp" or "unix", and
	// [SourceAddress] of ctx is the address to dial from.
	// The address is an IP and a port, or the path of a socket, that the grants allow. Nil means the
	// system's dialer, in the network namespace of the attempt's context (see handlers/netns).
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Handshake makes the TLS handshake of a connection. Nil means crypto/tls. If the returned
	// connection has a ConnectionState method, the guest sees its result.
	Handshake func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

	// RoundTrip makes one HTTP request that the grants allow. addr is an IP and a port, or
	// the path of a socket. Nil means HTTP/1.1 over DialContext and Handshake. The guest sees
	// the TLS field of the response. A Body may have a method Ready() bool, which reports
	// whether a Read would return at once. Such a body is read without a goroutine.
	RoundTrip func(req *http.Request, addr string) (*http.Response, error)

	// Credentials returns the named credentials for a plugin's TLS connections: the client
	// certificate and the certificate authorities. Only the fields RootCAs, Certificates, ServerName and
	// InsecureSkipVerify of the result are used. An error that wraps [fs.ErrPermission] means that
	// the name is unknown, or that the plugin may not use it. Nil means that there are no
	// credentials. Credentials must be safe for concurrent use.
	Credentials func(plugin, name string) (*tls.Config, error)

	// DNSServers are the nameservers for DNS look-ups that name no server, each as IP and port. Nil
	// means the nameservers of /etc/resolv.conf, without its search domains. An empty list means
	// none. They are queried in the network namespace of this program.
	DNSServers []string

	// Echo sends an ICMP echo request that the grants allow, and returns its reply. Nil means
	// [Echo]: it uses sockets in the network namespace of the attempt's context, unprivileged
	// datagram sockets if the system has them, else raw ones.
	Echo func(ctx context.Context, r EchoRequest) (EchoReply, error)

	// Files reads a file of the host that the grants allow. It calls Allowed of the request with the path
	// after symbolic links. Nil means the files of this machine.
	Files func(ctx context.Context, r FileRequest) (FileReply, error)

	// LookupIP resolves the names of targets. Nil means net.DefaultResolver.
	LookupIP func(ctx context.Context, host string) ([]netip.Addr, error)

	// Listeners are the addresses that this program itself listens on. Guests cannot reach
	// them, regardless of grants and targets. An unspecified address such as 0.0.0.0 means every
	// address of this machine. The check does not apply to dials in another network namespace, where
	// the same addresses belong to others.
	Listeners []net.Addr

	// CacheDir is the folder for compiled modules, which are native code. It must belong to
	// this user and not be writable by others. New creates it if necessary. Empty means
	// prober/wasm in the user's cache folder, or no cache on disk if there is no such folder.
	CacheDir string

	// Logger receives the log lines of guests at level debug. Nil discards them.
	Logger *slog.Logger

	// TotalMemory limits the memory of all instances and images, in bytes. 0 means 256 MiB.
	TotalMemory uint64

	// Interpreter interprets guests instead of compiling them. They run much slower, but
	// load fast under the race detector.
	Interpreter bool

	// Checks uses [DeadlineChecks] for every module, so that it can be compared with fuel.
	Checks bool

	// Coverage counts what guests run. All handlers of the host must be of the same
	// module. It is then compiled without the cache on disk, and runs slower. Nil counts nothing.
	Coverage *Coverage

	// Strict makes malformed performance data and unknown fields of a result an error with the reason
	// "protocol", for tests of plugins.
	Strict bool

	// Compat restores behaviours of the kubelet. Only [probe.CompatHostTrouble] affects the host.
	Compat probe.Compat

	// Clock is the clock of guests. Nil means the system clock.
	Clock Clock

	// Rand is the source of randomness of guests. It must be safe for concurrent use. Nil
	// means the system's.
	Rand io.Reader

	// Compiler is the path of a program whose main calls [IsCompiler] first, as prober's
	// does. The host starts it to compile modules with limits of time and memory. If it is
	// empty, or there is no cache on disk, modules are compiled in this process without them.
	Compiler string

	// ShowOutput permits plugins to include data from the target in their output, such as the
	// beginning of a body.
	ShowOutput bool
	// Version is the version of prober that the request document names.
	Version string
}

// Clock gives guests the time, and times their waits and deadlines. Tests of plugins use a
// simulated one.
type Clock = guest.Clock

// Echo is the default of [Config.Echo].
func Echo(ctx context.Context, r EchoRequest) (EchoReply, error) { return echo.Do(ctx, r) }

// EchoRequest is one ICMP echo request of [Config.Echo].
type EchoRequest = echo.Request

// EchoReply is the reply to an [EchoRequest].
type EchoReply = echo.Reply

// EchoNotPermittedError is the error of [Config.Echo] if this user may not send echo requests. It says
// nothing about the target.
type EchoNotPermittedError = echo.NotPermittedError

// FileRequest is one request of [Config.Files].
type FileRequest = files.Request

// FileOp is the operation of a [FileRequest]: "stat", "statfs", "read" or "list".
type FileOp = files.Op

// FileReply is the reply to a [FileRequest].
type FileReply = files.Reply

// The parts of a [FileReply].
type (
	FileInfo       = files.Info
	FilesystemInfo = files.Filesystem
	FileList       = files.Listing
	FileEntry      = files.Entry
)

// Guests can tell these errors of [Config.Files] from others, as they can errors of package io/fs.
var (
	ErrFileType    = files.ErrType    // neither a regular file nor a folder, or the other one
	ErrFileEntries = files.ErrEntries // more entries than the request allows
)

// TLSConfig returns the TLS configuration that the guest requests for an HTTP request. ctx is the
// context of the request passed to [Config.RoundTrip]. For any other context the result is nil.
func TLSConfig(ctx context.Context) *tls.Config { return guest.TLSConfig(ctx) }

// SourceAddress returns the local address that the guest requests for a connection. ctx is the
// context passed to [Config.DialContext]. The zero Addr means any.
func SourceAddress(ctx context.Context) netip.Addr { return egress.SourceAddress(ctx) }

// Host holds what plugins share: the compilation cache, the memory budget and the slots of
// guests that compute. It is safe for concurrent use.
type Host struct {
	cfg    Config // read-only after New
	guests guest.Host
	cache  wazero.CompilationCache
	budget *memory.Budget
	quota  *sched.Quota // shares the budget, in bytes

	cacheFolder    string // "" if the cache is in memory; read-only after New
	compilerLimits compilerLimits

	compiling chan struct{}  // holds a token for each compilation
	pruning   sync.WaitGroup // waits for the pruning of the cache folder

	mu         sync.Mutex
	plugins    []*Handler // the open ones
	cacheUsers int        // number of loads, compilations and calls of Close that need the cache
	bombs      map[string]bomb
	closed     bool
}

// maxCompilations is how many modules are compiled concurrently. With more than one, a slow
// compilation does not delay the others. Each takes memory, at most 768 MiB in a [Config.Compiler].
const maxCompilations = 2

// New returns a Host. The caller closes it after the handlers that it loaded.
func New(cfg Config) (*Host, error) {
	cfg.TotalMemory = cmp.Or(cfg.TotalMemory, plugin.DefaultTotalMemory)
	cfg.Logger = safelog.New(cfg.Logger)
	if cfg.Clock == nil {
		cfg.Clock = guest.SystemClock{}
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	namespaces := cfg.DialContext == nil && cfg.RoundTrip == nil
	if cfg.DialContext == nil {
		cfg.DialContext = guest.Dial
	} else {
		cfg.DialContext = rawconn.Checked(cfg.DialContext)
	}
	if cfg.Echo == nil {
		cfg.Echo = Echo
	}
	if cfg.Files == nil {
		cfg.Files = new(files.System).Do
	}
	if cfg.LookupIP == nil {
		cfg.LookupIP = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if err := guest.CheckServers(cfg.DNSServers); err != nil {
		return nil, fmt.Errorf("wasm: %w", err)
	}
	cache, folder, err := openCache(cfg)
	if err != nil {
		return nil, fmt.Errorf("wasm: %w", err)
	}
	h := &Host{
		cfg: cfg, cache: cache, cacheFolder: folder, compilerLimits: usualCompiler,
		compiling: make(chan struct{}, maxCompilations), bombs: make(map[string]bomb),
	}
	h.budget, h.quota = memory.NewBudget(cfg.TotalMemory, h.evictIdle), sched.NewQuota(cfg.TotalMemory)
	h.guests = guest.Host{
		DialContext: cfg.DialContext, Handshake: cfg.Handshake, RoundTrip: cfg.RoundTrip, Credentials: cfg.Credentials, DNSServers: cfg.DNSServers,
		Echo: cfg.Echo, Files: cfg.Files, OnCall: cfg.Coverage.onCall(),
		Clock: cfg.Clock, Rand: cfg.Rand, Logger: cfg.Logger, Interpreter: cfg.Interpreter, Strict: cfg.Strict, Compat: cfg.Compat, Version: cfg.Version,
		Network:    egress.Network{LookupIP: cfg.LookupIP, Listeners: cfg.Listeners, Clock: cfg.Clock},
		Namespaces: namespaces, Budget: h.budget, Born: cfg.Clock.Now(),
	}
	h.guests.Slots = sched.NewSlots(runtime.GOMAXPROCS(0), h.guests.BoundStacks)
	h.pruning.Go(func() { pruneCache(folder, maxCached, maxCachedBytes) })
	return h, nil
}

// Close closes every plugin that is still open, and the cache. It does not wait for loads or
// abandoned compilations, which cannot be stopped: the last of them closes the cache.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.pruning.Wait()
		return nil
	}
	plugins := h.plugins
	h.plugins, h.closed = nil, true
	h.cacheUsers++ // the plugins need the cache until they are closed
	h.mu.Unlock()
	var errs []error
	for _, p := range plugins {
		errs = append(errs, p.Close())
	}
	h.pruning.Wait()
	return errors.Join(append(errs, h.releaseCache())...)
}

// acquireCache keeps the cache open until releaseCache: wazero panics if it compiles a module with a
// closed one.
func (h *Host) acquireCache() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return attempt.ErrClosed
	}
	h.cacheUsers++
	return nil
}

func (h *Host) releaseCache() error {
	h.mu.Lock()
	h.cacheUsers--
	last := h.closed && h.cacheUsers == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return h.cache.Close(ctx)
}

func (h *Host) add(p *Handler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return attempt.ErrClosed
	}
	h.plugins = append(h.plugins, p)
	return nil
}

func (h *Host) remove(p *Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// evictIdle and Close read the old slice without the lock.
	h.plugins = slices.DeleteFunc(slices.Clone(h.plugins), func(other *Handler) bool { return other == p })
}

// since returns the time since t on the clock of guests.
func (h *Host) since(t time.Time) time.Duration { return h.cfg.Clock.Now().Sub(t) }

// Memory returns how many bytes of [Config.TotalMemory] are in use.
func (h *Host) Memory() uint64 { return h.budget.InUse() }

// SetTotalMemory changes [Config.TotalMemory]. If more is in use, no instance is made until
// enough memory has been released.
func (h *Host) SetTotalMemory(bytes uint64) {
	bytes = cmp.Or(bytes, plugin.DefaultTotalMemory)
	h.budget.Resize(bytes)
	h.quota.Resize(bytes)
}

// evictIdle closes the instance that has been idle longest among all plugins. It reports whether
// there was one.
func (h *Host) evictIdle() bool {
	h.mu.Lock()
	plugins := h.plugins
	h.mu.Unlock()
	var oldest *Handler
	var since time.Time
	for _, p := range plugins {
		if t := p.idleSince(); !t.IsZero() && (oldest == nil || t.Before(since)) {
			oldest, since = p, t
		}
	}
	if oldest == nil {
		return false
	}
	oldest.evictOne()
	return true
}

// RegisterAll loads the plugins in found and registers them, each in a quarantine. If a plugin fails,
// the others are still loaded. The error joins the errors of all plugins, each with its name.
func RegisterAll(ctx context.Context, reg *handlers.Registry, host *Host, found []plugin.Found) error {
	return attempt.RegisterAll(ctx, reg, found, host.Load)
}
