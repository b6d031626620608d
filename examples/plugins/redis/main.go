// Redis is a plugin that pings a redis server and checks the lag of its replication.
package main

import (
	"context"
	"errors"
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

// Commands that every check sends.
var (
	ping            = appendCommand(nil, "PING")
	infoReplication = appendCommand(nil, "INFO", "replication")
)

// Probe implements [sdk.Plugin]. It sends all commands at once, and so waits for the server once.
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	password, withInfo := r.Config.String("password", ""), r.Config.Bool("replication", true)
	commands := make([]byte, 0, 128)
	if password != "" {
		commands = appendCommand(commands, auth(r.Config.String("username", ""), password)...)
	}
	commands = append(commands, ping...)
	if withInfo {
		commands = append(commands, infoReplication...)
	}
	c, start := newClient(conn), time.Now()
	if err := c.send(commands); err != nil {
		return failed("PING", err), nil
	}
	if password != "" {
		if _, err := c.reply(); err != nil {
			return failed("AUTH", err), nil
		}
	}
	pong, err := c.reply()
	if err != nil {
		return failed("PING", err), nil
	}
	if pong != "PONG" {
		return wrong(sdk.Failuref("PING: got %.40q, want PONG", pong)), nil
	}
	took := probe.Metric{Name: "ping_seconds", Value: time.Since(start).Seconds(), Unit: "s"}
	if !withInfo {
		out := sdk.Successf("PONG")
		out.Metrics = []probe.Metric{took}
		return out, nil
	}
	out := replication(r, c)
	out.Metrics = append(out.Metrics, took)
	return out, nil
}

// failed returns the Failure of a command. If the server refused the command, the reason is its answer.
func failed(command string, err error) probe.Outcome {
	out := sdk.Failuref("%s: %v", command, err)
	if _, ok := errors.AsType[refusal](err); ok {
		return wrong(out)
	}
	return out
}

// wrong returns out with the reason of an answer that is not the wanted one.
func wrong(out probe.Outcome) probe.Outcome {
	out.Reason = probe.ReasonBody
	return out
}

func auth(username, password string) []string {
	if username == "" {
		return []string{"AUTH", password}
	}
	return []string{"AUTH", username, password}
}

// replication checks the fields of INFO replication, which is the next reply.
func replication(r *sdk.Request, c *client) probe.Outcome {
	text, err := c.reply()
	if err != nil {
		return failed("INFO replication", err)
	}
	info := info(text)
	role := info.field("role")
	lag, replicas, err := info.lag(role)
	if err != nil {
		return failed("INFO replication", err)
	}
	out := judge(info, role == "slave", lag, replicas, r.Config.Duration("maxLag", 10*time.Second))
	out.Metrics = append(make([]probe.Metric, 0, 3),
		probe.Metric{Name: "replication_lag_seconds", Value: lag.Seconds(), Unit: "s"},
		probe.Metric{Name: "connected_replicas", Value: float64(replicas)})
	return out
}

func judge(info info, replica bool, lag time.Duration, replicas int, maxLag time.Duration) probe.Outcome {
	switch {
	case replica && info.field("master_link_status") != "up":
		return wrong(sdk.Failuref("the link to master %s:%s is %s", info.field("master_host"), info.field("master_port"), info.field("master_link_status")))
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

// info is one INFO section: one field per line, such as "role:master".
type info string

// field returns the value of a field, or "".
func (i info) field(name string) string {
	for rest := string(i); rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if n := len(name); len(line) > n && line[n] == ':' && line[:n] == name {
			return strings.TrimSpace(line[n+1:])
		}
	}
	return ""
}

// lag returns the lag of a replica, or the largest lag of the replicas of a master, and the
// number of replicas.
func (i info) lag(role string) (lag time.Duration, replicas int, err error) {
	switch role {
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

// seconds parses a number of seconds; -1 means that redis does not know it.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number of seconds", text)
	}
	return max(0, time.Duration(n)*time.Second), nil
}
