// Package clientcmd has the commands that ask a running agent, or change what it does. Read get.go
// first, then resources.go: what a list of each kind of object shows.
package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// New returns the commands.
func New(env *command.Env) []*cobra.Command {
	return []*cobra.Command{
		newGet(env), newDescribe(env), newExplain(env), newReport(env), newStatus(env), newWatch(env),
		newAction(env, trigger), newPause(env), newAction(env, resume), newReload(env), newNotify(env),
	}
}
