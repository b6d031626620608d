// Package clientcmd has the commands that query or control a running agent. Read get.go first, then
// resources.go, which has the kinds of objects and the columns of their tables.
package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// New returns the commands.
func New(env *command.Env) []*cobra.Command {
	return []*cobra.Command{
		newGet(env), newDescribe(env), newExplain(env), newReport(env), newAdvise(env), newStatus(env), newWatch(env), newPage(env),
		newAction(env, trigger), newPause(env), newAction(env, resume), newForce(env), newAction(env, unforce), newReload(env), newNotify(env), newNote(env),
	}
}
