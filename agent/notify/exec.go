package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/procgroup"
)

// commandPath is the PATH of commands.
const commandPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const maxOutput = 4 << 10 // bytes of a command's output to keep

// command runs a program for each message.
type command struct {
	spec *config.ExecReceiver
	mark string // environment variable that identifies the program; "" for none
}

func (c *command) mergeable() bool { return true }
func (c *command) kind() string    { return "exec" }

func (c *command) check() error {
	_, err := exec.LookPath(c.spec.Command[0])
	return err
}

// send runs the program in a process group of its own, with the JSON of m on stdin. It kills the rest of the
// group when the program exits, or at the timeout.
func (c *command) send(ctx context.Context, m *format.Message) (answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.spec.Timeout, fmt.Errorf("the command was killed after %s", c.spec.Timeout))
	defer cancel()
	input, err := json.Marshal(m)
	if err != nil {
		return "", &failure{text: err.Error(), final: true}
	}
	env := []string{
		"PATH=" + commandPath, "LANG=C.UTF-8", "PROBER_RECEIVER=" + m.Receiver, "PROBER_STATUS=" + m.Status, "PROBER_SEVERITY=" + m.Severity(),
		"PROBER_TITLE=" + m.Title, "PROBER_ID=" + m.ID,
	}
	if c.mark != "" {
		env = append(env, c.mark)
	}
	output := &procgroup.Head{Limit: maxOutput}
	cmd := &exec.Cmd{
		Path: c.spec.Command[0], Args: c.spec.Command, Dir: "/", Env: env, Stdin: bytes.NewReader(append(input, '\n')), Stdout: output, Stderr: output,
		WaitDelay: procgroup.OutputGrace, SysProcAttr: procgroup.BoundAttr(),
	}
	killed, err := procgroup.Run(ctx, cmd, nil)
	said := format.Clean(string(output.Bytes), format.MaxText)
	switch exit, failed := errors.AsType[*exec.ExitError](err); {
	case killed:
		return "", &failure{text: withOutput(context.Cause(ctx).Error(), said)}
	case failed:
		return "", &failure{text: withOutput(fmt.Sprintf("exit code %d", procgroup.ExitStatus(exit.ProcessState)), said)}
	case cmd.ProcessState == nil:
		return "", &failure{text: err.Error()}
	default: // also if the program did not read its input
		return "exit code 0", nil
	}
}

func withOutput(text, output string) string {
	if output == "" {
		return text
	}
	return text + ": " + output
}
