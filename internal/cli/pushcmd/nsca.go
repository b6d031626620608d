package pushcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
)

// Limits of a batch of lines, and of one line in bytes.
const (
	maxBatchLines = 1000
	maxBatchBytes = 512 << 10
	maxInputLine  = 64 << 10
)

// batch is a part of stdin that is sent at once.
type batch struct {
	text    strings.Builder
	numbers []int // of its lines in stdin
}

// sendLines reports the lines of stdin. It stops at the first batch that is not accepted.
func (p *push) sendLines(ctx context.Context) error {
	c, err := p.agent.Client(p.env)
	if err != nil {
		return err
	}
	var b batch
	sent := 0 // lines of stdin that were reported
	flush := func() error {
		if len(b.numbers) == 0 {
			return nil
		}
		if err := p.sendBatch(ctx, c, &b); err != nil {
			return err
		}
		sent, b = b.numbers[len(b.numbers)-1], batch{}
		return nil
	}
	in := bufio.NewScanner(p.env.Stdin)
	in.Buffer(nil, maxInputLine)
	number := 0
	for in.Scan() {
		number++
		line := in.Text()
		if strings.TrimSpace(line) == "" {
			continue
		}
		if problem := checkLine(line); problem != "" {
			return after(sent, fmt.Errorf("line %d: %s", number, problem))
		}
		if len(b.numbers) == maxBatchLines || b.text.Len()+len(line) >= maxBatchBytes {
			if err := flush(); err != nil {
				return after(sent, err)
			}
		}
		b.text.WriteString(line + "\n")
		b.numbers = append(b.numbers, number)
	}
	if err := in.Err(); err != nil {
		return after(sent, fmt.Errorf("line %d: %w", number+1, err))
	}
	return after(sent, flush())
}

// checkLine returns the problem of a line, "" if there is none. Only the agent knows the names.
func checkLine(line string) (problem string) {
	fields := strings.SplitN(line, "\t", 4)
	isCode := func(i int) bool { return i < len(fields) && len(fields[i]) == 1 && strings.Contains("0123", fields[i]) }
	switch {
	case len(fields) < 3:
		return "must be [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT"
	case !isCode(1) && (len(fields) < 4 || !isCode(2)):
		return "the code must be 0, 1, 2 or 3"
	}
	return ""
}

// sendBatch delivers a batch. Only here is SIGINT caught: nothing else ends a read of stdin.
func (p *push) sendBatch(ctx context.Context, c *client.Client, b *batch) error {
	ctx, stop := p.env.Interruptible(ctx)
	defer stop()
	err := deliver(ctx, ctx, p.retry, func(ctx context.Context) error { return c.PushLines(ctx, b.text.String()) })
	if s, ok := errors.AsType[*client.StatusError](err); ok {
		named := *s
		named.Text = b.named(s.Text)
		err = &named
	}
	return p.failed(err)
}

// lineNumber matches the line of a batch that an error of the agent names.
var lineNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^line ([0-9]{1,9})\b`) })

// named returns an error of the agent with the number of the line in stdin.
func (b *batch) named(text string) string {
	if m := lineNumber().FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 && n <= len(b.numbers) {
			return fmt.Sprintf("line %d%s", b.numbers[n-1], text[len(m[0]):])
		}
	}
	return fmt.Sprintf("lines %d to %d: %s", b.numbers[0], b.numbers[len(b.numbers)-1], text)
}

// after adds to an error how many lines were reported before it.
func after(sent int, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*command.Exit](err)
	if !ok {
		e = &command.Exit{Code: command.ExitFailed, Err: err}
	}
	if sent > 0 {
		e.Hint = fmt.Sprintf("lines 1 to %d were reported", sent)
	}
	return e
}
