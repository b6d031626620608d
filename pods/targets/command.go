package targets

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/procgroup"
)

// commandPath is the PATH of commands.
const commandPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command runs a command that prints targets. It is not safe for concurrent use.
type command struct {
	spec config.CommandTargets
	mark string

	digest [sha256.Size]byte // digest of the last good output
	last   []found
}

// get runs the command in its own process group. The environment of the agent is not passed on.
func (c *command) get(ctx context.Context, _ bool) ([]found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.spec.Timeout, fmt.Errorf("the command was killed after %s", c.spec.Timeout))
	defer cancel()
	env := []string{"PATH=" + commandPath, "LANG=C.UTF-8"}
	if c.mark != "" {
		env = append(env, c.mark)
	}
	end, err := procgroup.Capture(ctx, &procgroup.Command{Path: c.spec.Run[0], Args: c.spec.Run, Dir: "/", Env: env}, maxList+1)
	switch {
	case err != nil:
		return nil, err
	case end.Killed:
		return nil, context.Cause(ctx)
	case end.Status != 0:
		return nil, fmt.Errorf("exit code %d: %s", end.Status, strings.ToValidUTF8(fmt.Sprintf("%.500s", strings.TrimSpace(string(end.Stderr))), ""))
	}
	digest := sha256.Sum256(end.Stdout)
	if c.last != nil && digest == c.digest {
		return c.last, nil
	}
	list, err := parseAnswer(end.Stdout)
	if err != nil {
		return nil, err
	}
	c.digest, c.last = digest, list
	return list, nil
}
