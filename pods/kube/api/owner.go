package api

import (
	"context"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owner caches the UID of the node, which owns the leases written by its agent.
type owner struct {
	mu     sync.Mutex
	uid    types.UID
	logged bool // a failure to read it
}

func (o *owner) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uid = ""
}

// owners returns the node as the owner of a lease. If the node cannot be read, it logs that once and returns nil.
func (c *Client) owners(ctx context.Context) []metav1.OwnerReference {
	if c.node == "" {
		return nil
	}
	c.owner.mu.Lock()
	uid, logged := c.owner.uid, c.owner.logged
	c.owner.mu.Unlock()
	if uid == "" {
		var err error
		if uid, err = c.NodeUID(ctx, c.node); err != nil {
			if !logged {
				c.log.Warn("leases have no owner, and stay when the node is deleted: the node cannot be read", "node", c.node, "error", err)
			}
			logged = true
		}
		c.owner.mu.Lock()
		c.owner.uid, c.owner.logged = uid, logged
		c.owner.mu.Unlock()
	}
	if uid == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: c.node, UID: uid}}
}

// NodeUID returns the UID of a node.
func (c *Client) NodeUID(ctx context.Context, name string) (types.UID, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	data, err := c.core.Get().Resource("nodes").Name(name).MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var node struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	err = json.Unmarshal(data, &node)
	return node.Metadata.UID, err
}
