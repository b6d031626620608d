package client

import (
	"context"
	"net/http"

	"github.com/daeace23/prober/agent/api"
)

// SLOs returns the objectives of prober.yaml.
func (c *Client) SLOs(ctx context.Context) ([]api.SLO, error) {
	var list api.SLOList
	err := c.do(ctx, http.MethodGet, nil, &list, "api", "v1", "slos")
	return list.Items, err
}
