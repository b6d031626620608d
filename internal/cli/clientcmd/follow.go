package clientcmd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// follow writes the items of s, and then those that change, until ctx ends.
func (g *getter) follow(ctx context.Context, c *client.Client, s *selection, print printer) error {
	items, err := g.of.list(ctx, c, s)
	if err != nil {
		return remote.Failed(err)
	}
	lines := g.output == command.JSON || g.output == command.YAML
	if lines { // objects one by one, as kubectl -w does
		print = g.eachObject
	}
	seen := make(map[string]string) // what was shown of each item
	for i := range items {
		seen[items[i].key()] = items[i].shown(g)
	}
	if err := print(items); err != nil {
		return err
	}
	err = c.Stream(ctx, func(event string, data []byte) error {
		if event != g.of.event {
			return nil
		}
		i, err := g.of.decode(data)
		if err != nil {
			return err
		}
		shown := i.shown(g)
		if !s.has(g.of, &i) || seen[i.key()] == shown {
			return nil
		}
		if seen[i.key()] = shown; i.removed {
			delete(seen, i.key())
		}
		return print([]item{i})
	})
	if ctx.Err() != nil {
		return nil // the user has seen enough
	}
	if err == nil {
		err = errors.New("the agent has closed the stream")
	}
	return remote.Failed(err)
}

func (i *item) key() string { return i.namespace + "/" + i.name }

// shown returns the cells of i that are shown, but for those that change with the time alone.
func (i *item) shown(g *getter) string {
	changing := []string{"AGE", "RUN", "NEXT", "TOOK", "LAST SEEN"}
	var cells []string
	for n, c := range g.of.columns {
		if (!c.wide || g.output == wide) && !slices.Contains(changing, c.head) {
			cells = append(cells, i.cells[n])
		}
	}
	return strings.Join(cells, "\x00")
}

// eachObject writes the objects of items, each as a document of its own.
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
