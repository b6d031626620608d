// Program is an ordinary Go program, built with GOOS=wasip1 go build. It follows the conventions of
// Nagios plugins.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

type request struct {
	Target struct{ Host string }
	Config struct{ Do string }
}

func main() {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		fmt.Println("stdin:", err)
		os.Exit(3)
	}
	switch r.Config.Do {
	case "panic":
		panic("broken")
	case "fail":
		fmt.Fprintln(os.Stderr, "goroutine of mine")
		fmt.Println("down")
		os.Exit(2)
	case "sleep":
		time.Sleep(time.Hour)
	case "eat":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
		}
	}
	limit, err := strconv.Atoi(os.Getenv("GOMEMLIMIT"))
	fmt.Printf("%s: %s for %s, %t | limit=%dB 'time left'=%sms\n",
		os.Args[0], os.Getenv("PROBE_CONFIG_DO"), r.Target.Host, err == nil, limit, os.Getenv("PROBE_TIMEOUT_MS"))
}
