// Redis is a plugin that pings a redis server and checks the lag of its replication.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	if lag := c.Duration("maxLag", 0); lag < 0 {
		return fmt.Errorf("config.maxLag: must not be negative")
	}
	if c.Has("username") && !c.Has("password") {
		return fmt.Errorf("config.username: needs a password")
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	c := newClient(conn)
	if password := r.Config.String("password", ""); password != "" {
		if _, err := c.do(auth(r.Config.String("username", ""), password)...); err != nil {
			return sdk.Failuref("AUTH: %v", err), nil
		}
	}
	start := time.Now()
	pong, err := c.do("PING")
	if err != nil {
		return sdk.Failuref("PING: %v", err), nil
	}
	if pong != "PONG" {
		return sdk.Failuref("PING: got %.40q, want PONG", pong), nil
	}
	ping := probe.Metric{Name: "ping_seconds", Value: time.Since(start).Seconds(), Unit: "s"}
	out, err := replication(r, c)
	out.Metrics = append(out.Metrics, ping)
	return out, err
}

func auth(username, password string) []string {
	if username == "" {
		return []string{"AUTH", password}
	}
	return []string{"AUTH", username, password}
}

// replication checks the fields of INFO replication.
func replication(r *sdk.Request, c *client) (probe.Outcome, error) {
	if !r.Config.Bool("replication", true) {
		return sdk.Successf("PONG"), nil
	}
	text, err := c.do("INFO", "replication")
	if err != nil {
		return sdk.Failuref("INFO replication: %v", err), nil
	}
	info := info(text)
	lag, replicas, err := info.lag()
	if err != nil {
		return sdk.Failuref("INFO replication: %v", err), nil
	}
	out := judge(info, lag, replicas, r.Config.Duration("maxLag", 10*time.Second))
	out.Metrics = []probe.Metric{
		{Name: "replication_lag_seconds", Value: lag.Seconds(), Unit: "s"},
		{Name: "connected_replicas", Value: float64(replicas)},
	}
	return out, nil
}

func judge(info info, lag time.Duration, replicas int, maxLag time.Duration) probe.Outcome {
	replica := info.field("role") == "slave"
	switch {
	case replica && info.field("master_link_status") != "up":
		return sdk.Failuref("the link to master %s:%s is %s", info.field("master_host"), info.field("master_port"), info.field("master_link_status"))
	case replica && lag > maxLag:
		return sdk.Warningf("%v behind the master, more than %v", lag, maxLag)
	case replica:
		return sdk.Successf("PONG from a replica, %v behind the master", lag)
	case lag > maxLag:
		return sdk.Warningf("a replica is %v behind, more than %v", lag, maxLag)
	default:
		return sdk.Successf("PONG from a master of %d replicas", replicas)
	}
}

// info is one INFO section: a field a line, as "role:master".
type info string

// field returns the value of a field, or "".
func (i info) field(name string) string {
	for line := range strings.SplitSeq(string(i), "\n") {
		if value, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(value, ":") {
			return strings.TrimSpace(value[1:])
		}
	}
	return ""
}

// lag returns the lag of a replica, or the largest lag of the replicas of a master, and the
// number of replicas.
func (i info) lag() (lag time.Duration, replicas int, err error) {
	switch role := i.field("role"); role {
	case "slave":
		if i.field("master_link_status") != "up" {
			return 0, 0, nil
		}
		lag, err = seconds(i.field("master_last_io_seconds_ago"))
		return lag, 0, err
	case "master":
	default:
		return 0, 0, fmt.Errorf("unknown role %.40q", role)
	}
	for ; ; replicas++ {
		line := i.field("slave" + strconv.Itoa(replicas))
		if line == "" {
			return lag, replicas, nil
		}
		for field := range strings.SplitSeq(line, ",") {
			value, ok := strings.CutPrefix(field, "lag=")
			if !ok {
				continue
			}
			one, err := seconds(value)
			if err != nil {
				return 0, 0, err
			}
			lag = max(lag, one)
		}
	}
}

// seconds reads a number of seconds, which is -1 if redis does not know it.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number of seconds", text)
	}
	return max(0, time.Duration(n)*time.Second), nil
}
