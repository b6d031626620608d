package local

import (
	"context"
	"iter"

	"github.com/daeace23/prober/pods"
)

// Watch returns the changes of all pods; see [pods.Feed.Watch].
func (p *Pods) Watch(ctx context.Context) iter.Seq[pods.Change] { return p.feed.Watch(ctx, p.Pods) }
