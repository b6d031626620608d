package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/explain"
)

// Answer is the answer of a node's agent.
type Answer[T any] struct {
	Node  Node
	Value T
	Err   error // why there is no Value
}

// Each calls f for each node, for at most --parallel of them at a time, and returns the answers in the order of the
// nodes. The context of f ends after --request-timeout.
func Each[T any](ctx context.Context, c *Cluster, all []Node, f func(ctx context.Context, n Node) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(all))
	next := make(chan int)
	var working sync.WaitGroup
	for range min(c.flags.parallel, len(all)) {
		working.Go(func() {
			for i := range next {
				answers[i] = ask(ctx, c, all[i], f)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	working.Wait()
	return answers
}

func ask[T any](ctx context.Context, c *Cluster, n Node, f func(ctx context.Context, n Node) (T, error)) Answer[T] {
	a := Answer[T]{Node: n, Err: n.down}
	if a.Err == nil && ctx.Err() != nil {
		a.Err = context.Cause(ctx)
	}
	if a.Err != nil {
		return a
	}
	late := &client.UnansweredError{Server: n.Name, Err: fmt.Errorf("no response within %v", c.flags.timeout)}
	ctx, cancel := context.WithTimeoutCause(ctx, c.flags.timeout, late)
	defer cancel()
	a.Value, a.Err = f(ctx, n)
	return a
}

// Failure is the error of one node.
type Failure struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// Failures returns the errors of the nodes without an answer.
func Failures[T any](answers []Answer[T]) (all []Failure) {
	for _, a := range answers {
		if a.Err != nil {
			text := explain.OneLine(a.Err.Error())
			all = append(all, Failure{a.Node.Name, strings.TrimPrefix(text, a.Node.Name+": ")})
		}
	}
	return all
}

// maxShown is the maximum number of nodes that an error names.
const maxShown = 20

// Partial returns the error of a command to which not all nodes have answered, with exit code 3; nil if all have. The
// result of the command has the answers of the others.
func Partial[T any](c *Cluster, answers []Answer[T]) error {
	failures := Failures(answers)
	if len(failures) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "partial: %d of %s did not answer", len(failures), command.Count(len(answers), "node"))
	for _, f := range failures[:min(len(failures), maxShown)] {
		fmt.Fprintf(&text, "\n  %s: %s", f.Node, f.Error)
	}
	if more := len(failures) - maxShown; more > 0 {
		fmt.Fprintf(&text, "\n  and %s", command.Count(more, "more node"))
	}
	e := &command.Exit{Code: remote.ExitUnreachable, Err: errors.New(text.String())}
	for _, a := range answers {
		e.Hint = cmp.Or(e.Hint, c.Hint(a.Err))
	}
	return e
}

// Hint returns what lets an agent answer; "" if it is unknown.
func (c *Cluster) Hint(err error) string {
	s, ok := errors.AsType[*client.StatusError](err)
	switch {
	case !ok:
		return ""
	case s.Status == http.StatusForbidden && strings.Contains(s.Text, "pods/proxy"):
		return "a Role of the namespace " + c.flags.namespace + ` needs the rule {apiGroups: [""], resources: [pods/proxy], verbs: [get]}, and the verb create for actions`
	case s.Status == http.StatusServiceUnavailable || s.Status == http.StatusBadGateway || s.Status == http.StatusGatewayTimeout:
		return "the agents listen on loopback unless the component kubectl of deploy/kubernetes makes them listen for the API server"
	case s.Status == http.StatusUnauthorized:
		return "set --token-file to the file with the agents' token"
	}
	return ""
}
