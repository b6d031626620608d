package api

import (
	"context"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owner remembers the UID of the node, which owns the leases that its agent writes: they are deleted with it.
type owner struct {
	mu   sync.Mutex
	uid  types.UID
	told bool // that it cannot be read
}

func (o *owner) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uid = ""
}

// owners returns the node as owner of a lease; nil if the node cannot be read, which is logged once.
func (c *Client) owners(ctx context.Context) []metav1.OwnerReference {
	if c.node == "" {
		return nil
	}
	c.owner.mu.Lock()
	uid, told := c.owner.uid, c.owner.told
	c.owner.mu.Unlock()
	if uid == "" {
		var err error
		if uid, err = c.NodeUID(ctx, c.node); err != nil {
			if !told {
				c.log.Warn("leases have no owner, and stay when the node is deleted: the node cannot be read", "node", c.node, "error", err)
			}
			told = true
		}
		c.owner.mu.Lock()
		c.owner.uid, c.owner.told = uid, told
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
