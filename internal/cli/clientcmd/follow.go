package clientcmd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// follow writes the items of s, and then the changed items, until ctx ends.
func (g *getter) follow(ctx context.Context, c *client.Client, s *selection, print printer) error {
	items, err := g.of.list(ctx, c, s)
	if err != nil {
		return remote.Failed(err)
	}
	lines := g.output == command.JSON || g.output == command.YAML
	if lines { // objects one by one, as kubectl -w does
		print = g.eachObject
	}
	seen := make(map[string]string) // last printed cells of each item
	for i := range items {
		seen[items[i].key()] = items[i].shown(g)
	}
	if err := print(items); err != nil {
		return err
	}
	err = c.Stream(ctx, func(event string, data []byte) error {
		i, err := g.changed(ctx, c, event, data, s)
		if i == nil || err != nil {
			return err
		}
		shown, before := i.shown(g), seen[i.key()]
		switch {
		case !s.selects(i): // it may be selected again later
			delete(seen, i.key())
			return nil
		case before == shown && !i.removed:
			return nil
		case i.removed:
			delete(seen, i.key())
		default:
			if len(seen) >= maxSeen {
				clear(seen)
			}
			seen[i.key()] = shown
		}
		return print([]item{*i})
	})
	if ctx.Err() != nil {
		return nil // the user has interrupted the command
	}
	if err == nil {
		err = errors.New("the agent has closed the stream")
	}
	return remote.Failed(err)
}

// maxSeen is the maximum number of items whose last printed cells are kept, since an agent's events have
// no end.
const maxSeen = 100_000

// changed returns the item of an event of the stream; nil for an event of another kind. It records the
// labels of pods.
func (g *getter) changed(ctx context.Context, c *client.Client, event string, data []byte, s *selection) (*item, error) {
	if event == "pod" && s.selector != nil {
		i, err := decodePod(data)
		if err != nil {
			return nil, err
		}
		s.label(i.object.(*v1.Pod), i.removed)
	}
	if event != g.of.event {
		return nil, nil
	}
	if g.of.fetch != nil {
		return g.of.fetch(ctx, c, s, data)
	}
	i, err := g.of.decode(data)
	return &i, err
}

func (i *item) key() string { return i.namespace + "/" + i.name }

// shown returns the printed cells of i, without cells that change only with time, and the number of the
// event's occurrence.
func (i *item) shown(g *getter) string {
	changing := []string{"AGE", "RUN", "NEXT", "TOOK", "LAST SEEN", "REPORT", "DUE"}
	cells := []string{i.recurred}
	for n, c := range g.of.columns {
		if (!c.wide || g.output == wide) && !slices.Contains(changing, c.head) {
			cells = append(cells, i.cells[n])
		}
	}
	return strings.Join(cells, "\x00")
}

// eachObject writes the objects of items, each as a separate document.
func (g *getter) eachObject(items []item) error {
	for _, i := range items {
		if g.output == command.JSON {
			if err := json.NewEncoder(g.env.Stdout).Encode(i.object); err != nil {
				return command.Failed(err)
			}
			continue
		}
		if _, err := g.env.Stdout.Write([]byte("---\n")); err != nil {
			return command.Failed(err)
		}
		if err := g.env.Encode(g.output, i.object); err != nil {
			return err
		}
	}
	return nil
}
