package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// patience is the time limit for each wait. Under the race detector wazero alone takes half a
// minute to compile a guest.
const patience = 3 * time.Minute

func TestScript(t *testing.T) {
	t.Parallel()
	cache := t.TempDir() // of compiled modules: scripts use the same ones
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PROBER_LISTEN", "127.0.0.1:0") // scripts run in parallel
			env.Setenv("XDG_CACHE_HOME", cache)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": code, "serve": serve, "start": start, "line": line, "ask": ask, "finish": finish, "signal": signal, "redis": redis, "guest": guest, "tester": tester, "pki": pki,
		},
	})
}

// code CODE PROGRAM ARG... runs a program that must exit with CODE.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code CODE PROGRAM ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(ts, err); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// program is the program that start has started.
type program struct {
	cmd    *exec.Cmd
	stderr *os.File // read end
	reader sync.WaitGroup

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed when text grows; nil at the end of stderr
}

// start PROGRAM ARG... runs a program in the background, for line, signal and finish. It sets SOCKET
// to the path of the program's socket.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: start PROGRAM ARG...")
	}
	path := args[0]
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if _, err := os.Stat(dir + "/" + path); err == nil {
			path = dir + "/" + path
			break
		}
	}
	read, write, err := os.Pipe()
	ts.Check(err)
	p := &program{cmd: exec.Command(path, args[1:]...), stderr: read, changed: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr = ts.MkAbs("."), write
	p.cmd.SysProcAttr = ownGroup()
	short, err := os.MkdirTemp("", "p") // a path that sockets can have
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(short) })
	ts.Setenv("SOCKET", filepath.Join(short, "s"))
	p.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "PATH="+ts.Getenv("PATH"), "XDG_CACHE_HOME="+ts.Getenv("XDG_CACHE_HOME"),
		"PROBER_SOCKET="+ts.Getenv("SOCKET"))
	ts.Check(p.cmd.Start())
	ts.Check(write.Close())
	p.reader.Go(p.read)
	current.Store(ts, p)
	ts.Defer(func() {
		killGroup(p.cmd.Process.Pid) // no effect if it has ended
		_ = p.cmd.Wait()
		p.reader.Wait()
		current.Delete(ts)
	})
}

// current is the program of each script that runs.
var current sync.Map

func running(ts *testscript.TestScript) *program {
	p, ok := current.Load(ts)
	if !ok {
		ts.Fatalf("nothing was started")
	}
	return p.(*program)
}

func (p *program) read() {
	defer p.stderr.Close()
	for r := bufio.NewReader(p.stderr); ; {
		text, err := r.ReadString('\n')
		p.mu.Lock()
		p.text.WriteString(text)
		close(p.changed)
		p.changed = make(chan struct{})
		if err != nil {
			p.changed = nil
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// line REGEXP [VAR] waits until the started program has written a matching line to
// stderr, and puts its first group into VAR.
func line(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: line REGEXP [VAR]")
	}
	p, want := running(ts), regexp.MustCompile("(?m)"+args[0])
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		text, changed := p.text.String(), p.changed
		p.mu.Unlock()
		if match := want.FindStringSubmatch(text); match != nil {
			if len(args) == 2 {
				ts.Setenv(args[1], match[1])
			}
			return
		}
		if changed == nil {
			ts.Fatalf("the program ended without a line like %s:\n%s", args[0], text)
		}
		select {
		case <-changed:
		case <-deadline:
			ts.Fatalf("no line like %s in\n%s", args[0], text)
		}
	}
}

// signal SIGNAL sends a signal to the started program.
func signal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: signal SIGNAL")
	}
	s, ok := map[string]os.Signal{"SIGINT": os.Interrupt, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP, "SIGKILL": syscall.SIGKILL}[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[0])
	}
	ts.Check(running(ts).cmd.Process.Signal(s))
}

// finish SIGNAL CODE FILE sends a signal to the started program, which must end with
// CODE, and puts all of its stderr into FILE.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: finish SIGNAL CODE FILE")
	}
	p := running(ts)
	signal(ts, false, args[:1])
	ended := make(chan error, 1)
	go func() {
		p.reader.Wait()
		ended <- p.cmd.Wait()
	}()
	select {
	case err := <-ended:
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(p.text.String()), 0o600))
		if got := exitCode(ts, err); strconv.Itoa(got) != args[1] {
			ts.Fatalf("exit code %d, want %s", got, args[1])
		}
	case <-time.After(patience):
		ts.Fatalf("%s does not end the program", args[0])
	}
}

// ask METHOD URL STATUS FILE sends a request and puts the answer's body into FILE. The host
// "socket" is the socket of the program.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: ask METHOD URL STATUS FILE")
	}
	req, err := http.NewRequest(args[0], args[1], nil)
	ts.Check(err)
	transport := &http.Transport{DisableKeepAlives: true}
	if req.URL.Host == "socket" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", ts.Getenv("SOCKET"))
		}
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	ts.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), body, 0o600))
	if strconv.Itoa(res.StatusCode) != args[2] {
		ts.Fatalf("%s %s: %s, want %s\n%s", args[0], args[1], res.Status, args[2], body)
	}
}

// redis FILE writes the example plugin redis.
func redis(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: redis FILE")
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o700))
	module, err := redisModule()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), module, 0o600))
}

// pki DIR writes a certificate authority, ca.pem. It signs the certificates server.pem, of a server at
// 127.0.0.1, and client.pem, of a client. Each has its key in the same file.
func pki(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pki DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	parent, parentKey := new(x509.Certificate), (*ecdsa.PrivateKey)(nil)
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: i == 0,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if i == 0 {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		ts.Check(err)
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
		ts.Check(os.WriteFile(filepath.Join(dir, name+".pem"), text, 0o600))
	}
}

// guestModule returns the guest that the tests of package wasm use, which is built once.
var guestModule = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", path, "../../handlers/wasm/testdata/guest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	module, err := os.ReadFile(path)
	return module, errors.Join(err, os.RemoveAll(dir))
})

// guest FILE writes the guest that the tests of package wasm use.
func guest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: guest FILE")
	}
	module, err := guestModule()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), module, 0o600))
	if race {
		guestCompiled.Do(func() { err = compileGuest(module, ts.Getenv("XDG_CACHE_HOME")) })
		ts.Check(err)
	}
}

var guestCompiled sync.Once // into the cache of all scripts

// compileGuest compiles the guest with a program without the race detector. With it, the compilation takes
// longer than the limit for a module.
func compileGuest(module []byte, cache string) error {
	dir, err := os.MkdirTemp("", "compile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "guest.wasm")
	manifest := []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: guest\nversion: 1.0.0\nmode: reactor\nabi: 1\n")
	if err := errors.Join(os.WriteFile(path, module, 0o600), os.WriteFile(filepath.Join(dir, "plugin.yaml"), manifest, 0o600)); err != nil {
		return err
	}
	plain := filepath.Join(dir, "prober")
	run := exec.Command(plain, "plugin", "run", "--timeout", "1m", path)
	run.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	for _, c := range []*exec.Cmd{exec.Command("go", "build", "-o", plain, "."), run} {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", c, err, out)
		}
	}
	return nil
}

// serve KIND VAR starts a server on loopback for the rest of the script and puts its
// address into VAR.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: serve http|https|tcp|grpc|redis VAR")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	var stop func()
	switch args[0] {
	case "http", "https":
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: webPages()}}
		if args[0] == "https" {
			server.StartTLS()
		} else {
			server.Start()
		}
		stop = server.Close
	case "tcp":
		stop = func() { _ = listener.Close() }
	case "grpc":
		server, states := grpc.NewServer(), health.NewServer()
		states.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
		healthpb.RegisterHealthServer(server, states)
		go func() { _ = server.Serve(listener) }()
		stop = server.Stop
	case "redis":
		loaded := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		go func() { _ = appRESP(listener, loaded.URL, "redis") }()
		stop = func() { _ = listener.Close(); loaded.Close() }
	default:
		ts.Fatalf("unknown kind %q", args[0])
	}
	ts.Defer(stop)
	ts.Setenv(args[1], listener.Addr().String())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	ts.Check(err)
	ts.Setenv(args[1]+"_PORT", port)
}

func webPages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s from %s, query %q", r.Header.Get("X-Name"), r.Host, r.URL.RawQuery)
	})
	mux.HandleFunc("/targets", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"targets": ["http://%s/ok"], "labels": {"instance": "served", "token": %q}}]`, r.Host, r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user+password != "annpass" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("/agent", func(w http.ResponseWriter, r *http.Request) { // the event of a warning has the body
		w.WriteHeader(http.StatusMultipleChoices)
		fmt.Fprint(w, r.UserAgent())
	})
	mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "no \x1b[31mdatabase\xff\n")
	})
	const hostile = "<script>alert(1)</script>\x1b[31mred\x1b]0;title\x07\r\n\xff\xfe\u009b2J"
	mux.HandleFunc("/hostile", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, hostile)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) { // far more than the probe reads
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, hostile+strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 24 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("h", 1<<19)) // more than net/http takes
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}
