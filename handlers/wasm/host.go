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
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Limits of a guest that no configuration changes; the others are [plugin.Limits].
const (
	maxMemory    = 256 << 20        // of one instance, whatever is asked for
	startTimeout = 10 * time.Second // of _initialize, at load

	// interpretedStart is startTimeout where guests are interpreted: those of Go take tens
	// of times as long, which on a busy machine is more than that.
	interpretedStart = 2 * time.Minute
)

// Config configures a [Host]. Every field may be left zero.
type Config struct {
	// DialContext makes the connections that guests ask for. The address is an IP
	// and a port that has passed the grants, or the path of a socket; the network
	// "tcp", "udp" or "unix". Nil means a net.Dialer.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Handshake makes the TLS of a connection. Nil means that of crypto/tls. Of what it
	// returns, the guest is told the ConnectionState, if it has one.
	Handshake func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

	// RoundTrip carries out one hop of prober_v1_http, which the grants allow: to addr,
	// an IP and a port or the path of a socket. Nil means HTTP/1.1 over DialContext and
	// Handshake. Of what it returns, TLS tells the guest of the peer. A Body that has
	// Ready() bool, which says whether a Read would return at once, is read without a
	// goroutine; until it is ready, only redirects read from it.
	RoundTrip func(req *http.Request, addr string) (*http.Response, error)

	// DNSServers are asked, in turn, by look-ups that name no server: each an IP and a
	// port. Nil means the nameservers of /etc/resolv.conf, whose search domains are not
	// tried; empty means that there are none.
	DNSServers []string

	// LookupIP resolves the names of targets. Nil means net.DefaultResolver.
	LookupIP func(ctx context.Context, host string) ([]netip.Addr, error)

	// Listeners are the addresses that this program itself listens on. No guest reaches
	// them, whatever it is granted and whatever its target is. One of every address of the
	// host, as 0.0.0.0 is, covers all of them.
	Listeners []net.Addr

	// CacheDir keeps compiled modules, which are native code: it must belong to this
	// user and be writable to nobody else. It is made if need be. Empty means
	// prober/wasm in the user's cache folder, or no cache where there is none.
	CacheDir string

	// Logger receives the log lines of guests, at the level debug. Nil drops them.
	Logger *slog.Logger

	// Memory is the most bytes of linear memory that an instance of any plugin may have,
	// whatever its manifest and the operator's limits of it say; 256 MiB at most. 0
	// leaves it to them.
	Memory uint64

	// TableEntries is the same of the entries of an instance's tables.
	TableEntries uint32

	// TotalMemory is the most bytes of all instances, snapshots included. 0 means
	// 256 MiB.
	TotalMemory uint64

	// Interpreter runs guests without compiling them: tens of times slower, but
	// quick to load under the race detector.
	Interpreter bool

	// Strict makes a result that has fields which the contract does not know an error
	// "protocol", for tests of plugins. Else they are ignored.
	Strict bool

	// Compat turns fixes off. The host knows [probe.CompatHostTrouble].
	Compat probe.Compat

	// Clock is the time of guests. Nil means the system's.
	Clock Clock

	// Rand is where guests have their randomness from; it is read by several at a
	// time. Nil means the system's.
	Rand io.Reader

	// Compiler is a program that begins with [IsCompiler], as prober does: it is started to
	// compile a module that is not in the cache, with limits of time and memory. Empty means
	// that modules are compiled in this process, where only their size and what is counted in
	// them is bounded. So are they where there is no folder for the cache.
	Compiler string

	// Version is the version of prober that guests are told.
	Version string
}

// Clock is the time that guests see, wait by and are ended by. A test of a plugin has one of
// its own, on which nothing takes time but what waits.
type Clock = guest.Clock

// TLSConfig returns how the guest wants the TLS of an HTTP request made, for
// [Config.RoundTrip]; nil if ctx is not that of one.
func TLSConfig(ctx context.Context) *tls.Config { return guest.TLSConfig(ctx) }

// Host is what plugins share: the compilation cache, the memory budget and the
// slots of guests that compute. It is safe for concurrent use.
type Host struct {
	cfg    Config // read-only after New
	guests guest.Host
	cache  wazero.CompilationCache
	budget *memory.Budget
	quota  *sched.Quota // of the budget, in bytes

	cacheFolder    string // of cache; "" where that is in memory; read-only after New
	compilerLimits compilerLimits

	compiling chan struct{}  // holds one token while there is a compilation: one at a time
	beside    chan struct{}  // the same, of those that began beside another that takes long
	compilers sync.WaitGroup // those that nobody waits for any more included
	pruning   sync.WaitGroup // of the folder of the cache

	mu           sync.Mutex
	plugins      []*Handler // that are open
	compilations int        // that use the cache; loads and Close count as long as they last
	bombs        []bomb
	closed       bool
}

// New returns a Host. Close it after the handlers that it loaded.
func New(cfg Config) (*Host, error) {
	cfg.TotalMemory = cmp.Or(cfg.TotalMemory, plugin.DefaultTotalMemory)
	if cfg.Memory > maxMemory {
		return nil, fmt.Errorf("wasm: memory of %d bytes an instance; at most %d are allowed", cfg.Memory, maxMemory)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = guest.SystemClock{}
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.DialContext == nil {
		cfg.DialContext = new(net.Dialer).DialContext
	}
	if cfg.Handshake == nil {
		cfg.Handshake = guest.Handshake
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
	h := &Host{cfg: cfg, cache: cache, compiling: make(chan struct{}, 1), beside: make(chan struct{}, 1), cacheFolder: folder, compilerLimits: usualCompiler}
	if cfg.Compiler != "" {
		h.beside = make(chan struct{}, compilersBeside)
	}
	h.budget, h.quota = memory.NewBudget(cfg.TotalMemory, h.evictIdle), sched.NewQuota(cfg.TotalMemory)
	h.guests = guest.Host{
		DialContext: cfg.DialContext, Handshake: cfg.Handshake, RoundTrip: cfg.RoundTrip, DNSServers: cfg.DNSServers,
		Clock: cfg.Clock, Rand: cfg.Rand, Logger: cfg.Logger, Interpreter: cfg.Interpreter, Strict: cfg.Strict, Compat: cfg.Compat, Version: cfg.Version,
		Network: egress.Network{LookupIP: cfg.LookupIP, Listeners: cfg.Listeners, Clock: cfg.Clock},
		Budget:  h.budget, Born: cfg.Clock.Now(),
	}
	h.guests.Slots = sched.NewSlots(runtime.GOMAXPROCS(0), h.guests.BoundStacks)
	h.pruning.Go(func() { pruneCache(cacheDir(cfg), maxCached, maxCachedBytes) })
	return h, nil
}

// Close closes every plugin that is still open, and the cache. It does not wait for a
// compilation that was given up, which nothing can stop and which may take long, nor for
// a load: the cache is closed when that is over.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.pruning.Wait()
		return nil
	}
	plugins := h.plugins
	h.plugins, h.closed = nil, true
	h.compilations++ // until they are closed, the plugins need the cache
	h.mu.Unlock()
	var errs []error
	for _, p := range plugins {
		errs = append(errs, p.Close())
	}
	h.pruning.Wait()
	return errors.Join(append(errs, h.leaveCache())...)
}

func (h *Host) closeCache() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return h.cache.Close(ctx)
}

// How long a compilation waits for the one before, until another begins beside it, and how
// many may. Hardly a module that is what it says takes as long. Compilers of their own have
// limits, so that there may be some; in this process nothing stops one, and there is one
// more at most.
const (
	compilePatience   = 5 * time.Second
	unlimitedPatience = 30 * time.Second
	compilersBeside   = 3
)

// beginCompilation waits for the one before to end, and keeps the cache open until
// endCompilation, which is told of the slot.
func (h *Host) beginCompilation(ctx context.Context) (slot chan struct{}, err error) {
	if slot, err = h.compilationSlot(ctx); err != nil {
		return nil, err
	}
	if err = h.keepCache(); err != nil {
		<-slot
		return nil, err
	}
	return slot, nil
}

// keepCache keeps the cache open until leaveCache: wazero panics when a module is compiled
// in one that is closed, those of the host included.
func (h *Host) keepCache() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return attempt.ErrClosed
	}
	h.compilations++
	return nil
}

func (h *Host) compilationSlot(ctx context.Context) (chan struct{}, error) {
	select {
	case h.compiling <- struct{}{}:
		return h.compiling, nil
	default:
	}
	patience := compilePatience
	if h.cfg.Compiler == "" {
		patience = unlimitedPatience
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	var beside chan struct{} // nil: not yet
	for {
		select {
		case h.compiling <- struct{}{}:
			return h.compiling, nil
		case beside <- struct{}{}:
			return beside, nil
		case <-late.C:
			h.cfg.Logger.WarnContext(ctx, "a plugin is compiled beside another that takes long", "waited", patience)
			beside = h.beside
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// endCompilation lets the next one begin.
func (h *Host) endCompilation(slot chan struct{}) {
	<-slot
	_ = h.leaveCache() // nobody is there to be told
}

func (h *Host) leaveCache() error {
	h.mu.Lock()
	h.compilations--
	last := h.closed && h.compilations == 0
	h.mu.Unlock()
	if last {
		return h.closeCache()
	}
	return nil
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
	for i := range h.plugins {
		if h.plugins[i] == p {
			h.plugins = append(h.plugins[:i:i], h.plugins[i+1:]...)
			return
		}
	}
}

// since is the time that has passed since t.
func (h *Host) since(t time.Time) time.Duration { return h.cfg.Clock.Now().Sub(t) }

// Memory returns how many bytes the instances of all plugins take, out of
// [Config.TotalMemory].
func (h *Host) Memory() uint64 { return h.budget.InUse() }

// SetTotalMemory changes [Config.TotalMemory]. Where more is in use, no further instance
// is made until there is room again.
func (h *Host) SetTotalMemory(bytes uint64) {
	bytes = cmp.Or(bytes, plugin.DefaultTotalMemory)
	h.budget.Resize(bytes)
	h.quota.Resize(bytes)
}

// evictIdle closes the instance that has been idle for longest, of whatever plugin, and
// reports whether there was one.
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

// RegisterAll loads the plugins that were found and registers them, each in a
// quarantine. A plugin that fails does not keep back the others; the errors name it.
func RegisterAll(ctx context.Context, reg *handlers.Registry, host *Host, found []plugin.Found) error {
	return attempt.RegisterAll(ctx, reg, found, 1, host.Load)
}
