// Package child runs parts of the benchmark in child processes, so that the memory and the processor time of
// one subject do not include another's. A child is another process of this program. It reads requests from
// stdin and writes answers to stdout, both as JSON, and ends at the end of its stdin.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// argument is the first argument of a child, before the name of its job.
const argument = "child"

// Job is the function that a child runs. Its context ends with the parent.
type Job func(ctx context.Context, c *Conn) error

// Main runs the job of a child and exits. It returns if this process is not a child. Programs and tests must
// call it first.
func Main(jobs map[string]Job) {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	job, ok := jobs[os.Args[2]]
	if !ok {
		fmt.Fprintf(os.Stderr, "bench: error: unknown job %q\n", os.Args[2])
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{requests: make(chan json.RawMessage), replies: json.NewEncoder(os.Stdout)}
	go c.read(ctx, cancel, os.Stdin)
	if err := job(ctx, c); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "bench: error: job %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Conn is the child's end of the connection with its parent.
type Conn struct {
	requests chan json.RawMessage // closed at the end of stdin
	replies  *json.Encoder
}

func (c *Conn) read(ctx context.Context, cancel context.CancelFunc, in io.Reader) {
	defer close(c.requests)
	defer cancel()
	for dec := json.NewDecoder(bufio.NewReader(in)); ; {
		var request json.RawMessage
		if dec.Decode(&request) != nil {
			return // the parent has closed it, or has ended
		}
		select {
		case c.requests <- request:
		case <-ctx.Done():
			return
		}
	}
}

// Next reads the next request into v. It returns io.EOF after the last one.
func (c *Conn) Next(v any) error {
	request, ok := <-c.requests
	if !ok {
		return io.EOF
	}
	return json.Unmarshal(request, v)
}

// Reply answers a request.
func (c *Conn) Reply(v any) error { return c.replies.Encode(v) }

// Process is a child as its parent sees it.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies *json.Decoder
}

// Start starts a child. It is killed when ctx ends.
func Start(ctx context.Context, job string) (*Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, argument, job)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{cmd: cmd, in: in, replies: json.NewDecoder(out)}, nil
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ask sends a request and reads the answer into reply, which must not be nil.
func (p *Process) Ask(request, reply any) error {
	if err := json.NewEncoder(p.in).Encode(request); err != nil {
		return fmt.Errorf("child %s: %w", p.cmd.Args[2], err)
	}
	if err := p.replies.Decode(reply); err != nil {
		return fmt.Errorf("child %s: no answer: %w", p.cmd.Args[2], err)
	}
	return nil
}

// grace is how long a child may take to end.
const grace = 10 * time.Second

// Close ends the child and waits for it.
func (p *Process) Close() error {
	kill := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// Run starts a child, sends it one request, and ends it.
func Run(ctx context.Context, job string, request, reply any) error {
	p, err := Start(ctx, job)
	if err != nil {
		return err
	}
	err = p.Ask(request, reply)
	return errors.Join(err, p.Close(), context.Cause(ctx))
}
