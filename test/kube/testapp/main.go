// Testapp is the app in the pods of the tests in test/kube.
//
//	serve         the default: serves HTTP at ADDR (:8080), the protocol of Redis at RESP_ADDR if it is set,
//	              and gRPC health at GRPC_ADDR if it is set
//	check [CODE]  exits with CODE; without CODE, with 0 if the app of this container is well, and 1 if not
//	hook          makes the app of this container log that a hook runs
//	touch FILE    creates or truncates a file
//	cat FILE      prints a file, or exits with 1
//	print BYTES   prints BYTES bytes
//	sleep DURATION
//	get URL       sends a GET request to the API server, with the token of the service account
//
// The paths /healthz and /ready report whether the app is well, /version prints VERSION, and /hook logs that
// a hook runs.
//
// The app is sick after a request of /sick until one of /well, while the file SICK_FILE (/tmp/sick) exists,
// after the duration SICK_AFTER, and in steps of a schedule. SEED selects the schedule, and STEP is the
// duration of a step. Steps are counted from EPOCH (milliseconds since 1970), or from the start.
//
// If LOG is set, the app logs each answer of /healthz and /ready with the parameter "by" of the request:
// "answered BY CODE UNIX-MICROSECONDS". After SIGTERM the app runs for TERM_DELAY, sick if SICK_ON_TERM is
// set, and exits with EXIT_ON_TERM (0).
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/test/kube/failures"
)

func main() {
	log.SetFlags(log.LUTC | log.Lmicroseconds)
	args := append(os.Args[1:], "", "")
	switch args[0] {
	case "", "serve":
		serve()
	case "check":
		os.Exit(check(args[1]))
	case "hook":
		_, err := ask("/hook")
		fatal(err)
	case "touch":
		fatal(os.WriteFile(args[1], nil, 0o666))
	case "cat":
		data, err := os.ReadFile(args[1])
		fatal(err)
		os.Stdout.Write(data)
	case "print":
		n, err := strconv.Atoi(args[1])
		fatal(err)
		os.Stdout.Write(bytes.Repeat([]byte("x"), n))
	case "sleep":
		d, err := time.ParseDuration(args[1])
		fatal(err)
		time.Sleep(d)
	case "get":
		fatal(get(args[1]))
	default:
		log.Fatalf("unknown command %q", args[0])
	}
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// address returns the address that the app listens on.
func address() string { return cmp.Or(os.Getenv("ADDR"), ":8080") }

// check implements the command check, and returns its exit code.
func check(code string) int {
	if n, err := strconv.Atoi(code); err == nil {
		fmt.Println("check", n)
		return n
	}
	resp, err := ask("/healthz")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer resp.Body.Close()
	_, _ = io.Copy(os.Stdout, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// ask sends a GET request to the app of this container.
func ask(path string) (*http.Response, error) {
	host, port, err := net.SplitHostPort(address())
	if err != nil {
		return nil, err
	}
	return http.Get("http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port) + path)
}

// get sends a GET request to the API server.
func get(url string) error {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// app is the state of the command serve.
type app struct {
	start     time.Time // start of the schedule
	seed      uint64
	step      time.Duration // 0: no schedule
	sickAfter time.Duration // time since begun; 0: never
	begun     time.Time
	setSick   atomic.Bool // by /sick and /well
}

// sick returns the reason why the app is sick; "" if it is well.
func (a *app) sick() string {
	switch {
	case a.setSick.Load():
		return "by request"
	case a.sickAfter > 0 && time.Since(a.begun) >= a.sickAfter:
		return "since " + a.sickAfter.String()
	case a.step > 0:
		if step := int(time.Since(a.start) / a.step); failures.Sick(a.seed, step) {
			return fmt.Sprint("step ", step)
		}
	}
	if file := cmp.Or(os.Getenv("SICK_FILE"), "/tmp/sick"); exists(file) {
		return "there is " + file
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func duration(name string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv(name), "0"))
	fatal(err)
	return d
}

func serve() {
	now := time.Now()
	a := &app{start: now, begun: now, sickAfter: duration("SICK_AFTER")}
	if seed := os.Getenv("SEED"); seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		fatal(err)
		a.seed, a.step = n, duration("STEP")
	}
	if epoch := os.Getenv("EPOCH"); epoch != "" {
		n, err := strconv.ParseInt(epoch, 10, 64)
		fatal(err)
		a.start = time.UnixMilli(n)
	}
	go a.end()
	if addr := os.Getenv("RESP_ADDR"); addr != "" {
		l, err := net.Listen("tcp", addr)
		fatal(err)
		go a.serveRESP(l)
	}
	if addr := os.Getenv("GRPC_ADDR"); addr != "" {
		l, err := net.Listen("tcp", addr)
		fatal(err)
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		go func() { fatal(server.Serve(l)) }()
	}
	for _, path := range []string{"/healthz", "/ready"} {
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			at, why := time.Now(), a.sick()
			if os.Getenv("LOG") != "" {
				code := http.StatusOK
				if why != "" {
					code = http.StatusServiceUnavailable
				}
				log.Println("answered", r.FormValue("by"), code, at.UnixMicro())
			}
			if why != "" {
				http.Error(w, "sick: "+why, http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "well")
		})
	}
	http.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, os.Getenv("VERSION")) })
	http.HandleFunc("/hook", func(http.ResponseWriter, *http.Request) { log.Println("a hook runs") })
	http.HandleFunc("/sick", func(http.ResponseWriter, *http.Request) { a.setSick.Store(true) })
	http.HandleFunc("/well", func(http.ResponseWriter, *http.Request) { a.setSick.Store(false) })
	log.Println("serving at", address())
	fatal(http.ListenAndServe(address(), nil))
}

// end waits for SIGTERM, and ends the program after TERM_DELAY.
func (a *app) end() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	log.Println("got", <-signals)
	if os.Getenv("SICK_ON_TERM") != "" {
		a.setSick.Store(true)
	}
	time.Sleep(duration("TERM_DELAY"))
	code, err := strconv.Atoi(cmp.Or(os.Getenv("EXIT_ON_TERM"), "0"))
	fatal(err)
	os.Exit(code)
}

// serveRESP answers PING.
func (a *app) serveRESP(l net.Listener) {
	for {
		conn, err := l.Accept()
		fatal(err)
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if !strings.EqualFold(lines.Text(), "PING") {
					continue // the length of an argument
				}
				answer := "+PONG\r\n"
				if why := a.sick(); why != "" {
					answer = "-LOADING sick: " + why + "\r\n"
				}
				if _, err := io.WriteString(conn, answer); err != nil {
					return
				}
			}
		}()
	}
}
