// Plugin is a process for tests. Its environment selects its behaviour at the start, and its config the
// behaviour of attempts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/process"
)

// The original streams of the process. go-plugin replaces os.Stdout and os.Stderr.
var rawStdout, rawStderr = os.Stdout, os.Stderr

func main() {
	manifest := "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n"
	switch os.Getenv("START") {
	case "hang":
		time.Sleep(time.Hour)
	case "crash":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(7)
	case "held": // a process outside of the group holds the output open
		sleep := exec.Command("/usr/bin/setsid", "/bin/sh", "-c", "/bin/sleep 1000 &")
		sleep.Stdout = os.Stdout
		if err := sleep.Run(); err != nil {
			panic(err)
		}
		return
	case "gibberish":
		fmt.Println(strings.Repeat("gibberish", 10_000))
		time.Sleep(time.Hour)
	case "polluted":
		fmt.Println("debug: connecting")
	case "prefixed":
		fmt.Print("loading... ")
	case "blank":
		fmt.Println()
	case "other":
		manifest = strings.Replace(manifest, "1.0.0", "2.0.0", 1)
	case "hostile":
		serveHostile(manifest)
		return
	case "once": // only the first start succeeds
		if err := os.Mkdir(os.Getenv("FLAG"), 0o700); err != nil {
			if os.Getenv("THEN") == "hang" {
				time.Sleep(time.Hour)
			}
			os.Exit(9)
		}
	}
	process.Serve(check{}, []byte(manifest))
}

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	switch c.String("mode", "") {
	case "bad":
		return errors.New("config.mode: bad is bad")
	case "slow":
		time.Sleep(time.Hour)
	case "spill":
		go panic("cannot take " + c.String("password", ""))
		time.Sleep(time.Hour)
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	switch mode := r.Config.String("mode", "ok"); mode {
	case "ok":
		out := sdk.Successf("%s of %s", r.Addr(), r.Pod.Name)
		out.Metrics = []probe.Metric{{Name: "load", Value: 0.5, Labels: map[string]string{"core": "1"}}}
		out.Details = `{"cores":2}`
		return out, nil
	case "verbose":
		return probe.Outcome{Output: "long", Details: `{"a":"` + strings.Repeat("x", 70_000) + `"}`}, nil
	case "warning":
		return sdk.Warningf("nearly full"), nil
	case "failure":
		return sdk.Failuref("down"), nil
	case "unknown":
		return sdk.Unknownf("who knows"), nil
	case "error":
		return probe.Outcome{}, errors.New("no idea")
	case "hang":
		r.Logf(sdk.Info, "waiting")
		<-ctx.Done()
		return probe.Outcome{}, ctx.Err()
	case "deaf":
		time.Sleep(time.Hour)
	case "spin":
		for ctx.Err() == nil {
		}
	case "panic":
		panic("at the disco")
	case "gossip": // logs after the attempt too
		secret := r.Config.String("password", "")
		go func() {
			for {
				fmt.Fprintln(rawStderr, "and the password was", secret)
				time.Sleep(10 * time.Millisecond)
			}
		}()
	case "suicide":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "die":
		go panic("in a goroutine")
		time.Sleep(time.Hour)
	case "env":
		return sdk.Successf("%s", strings.Join(os.Environ(), "\n")), nil
	case "pid":
		return sdk.Successf("%d", os.Getpid()), nil
	case "name":
		return sdk.Successf("%s", os.Args), nil
	case "child":
		return child()
	case "strays":
		return strays()
	case "fds":
		return descriptors()
	case "count":
		return count(r)
	case "log":
		for i := range 1000 {
			r.Logf(sdk.Warn, "line %d", i)
		}
	case "flood":
		return flood(), nil
	case "drown":
		drown()
	case "long":
		return sdk.Successf("%s", strings.Repeat("long ", 100_000)), nil
	default:
		return probe.Outcome{}, fmt.Errorf("mode %q", mode)
	}
	return sdk.Successf("done"), nil
}

// child starts a process.
func child() (probe.Outcome, error) {
	sleep := exec.Command("/bin/sleep", "1000")
	if err := sleep.Start(); err != nil {
		return probe.Outcome{}, err
	}
	return sdk.Successf("%d", sleep.Process.Pid), nil
}

// strays starts processes that outlive their parents, and returns their process IDs. They are inside or
// outside of its group, ignore signals, or share no file with it.
func strays() (probe.Outcome, error) {
	const quiet = "</dev/null >/dev/null 2>&1"
	var all []string
	for _, start := range [][]string{
		{"/bin/sh", "-c", "/bin/sleep 1000 " + quiet + " & echo $!"},
		{"/usr/bin/setsid", "/bin/sh", "-c", "/bin/sleep 1000 " + quiet + " & echo $!"},
		{"/usr/bin/setsid", "/bin/sh", "-c", "trap '' TERM HUP INT; (/bin/sleep 1000 " + quiet + " & echo $!)"},
		{"/usr/bin/setsid", "/bin/sh", "-c", "(exec 3>&1; echo $(/usr/bin/setsid /bin/sh -c 'echo $$; exec /bin/sleep 1000 <&- 2>&- 3>&- >&-' & ) >&3)"},
	} {
		out, err := exec.Command(start[0], start[1:]...).Output()
		if err != nil {
			return probe.Outcome{}, fmt.Errorf("%s: %w", start, err)
		}
		all = append(all, strings.TrimSpace(string(out)))
	}
	return sdk.Successf("%s", strings.Join(all, " ")), nil
}

// descriptors returns the open descriptors of this process.
func descriptors() (probe.Outcome, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return probe.Outcome{}, err
	}
	var all []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil {
			all = append(all, e.Name()+" "+to)
		}
	}
	return sdk.Successf("%s", strings.Join(all, "\n")), nil
}

// count counts its attempts.
func count(r *sdk.Request) (probe.Outcome, error) {
	kept, err := r.KV().Get("n")
	if err != nil {
		return probe.Outcome{}, err
	}
	n, _ := strconv.Atoi(string(kept))
	n++
	return sdk.Successf("%d", n), r.KV().Set("n", []byte(strconv.Itoa(n)))
}

// drown writes binary data to standard output and standard error for ever.
func drown() {
	block := []byte(strings.Repeat("\x00\xff\x1b[31m", 1<<15))
	for _, f := range []*os.File{rawStdout, rawStderr, os.Stdout} {
		go func() {
			for {
				_, _ = f.Write(block)
			}
		}()
	}
}

// flood writes 16 MiB to each stream of a plugin, with and without line breaks.
func flood() probe.Outcome {
	for i := range 256 {
		text := strings.Repeat("flood", 13_000)
		if i%2 == 0 {
			text = strings.Repeat("flood\n", 11_000)
		}
		for _, f := range []*os.File{rawStdout, rawStderr, os.Stdout, os.Stderr} {
			_, _ = f.WriteString(text)
		}
	}
	return probe.Outcome{Result: probe.Success, Output: "flooded"}
}
