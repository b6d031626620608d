package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/daeace23/prober/agent/api"
)

// Maintenance returns the maintenance windows.
func (c *Client) Maintenance(ctx context.Context) ([]api.MaintenanceWindow, error) {
	var list api.MaintenanceList
	err := c.do(ctx, http.MethodGet, nil, &list, "api", "v1", "maintenance")
	return list.Items, err
}

// StartMaintenance starts a maintenance window.
func (c *Client) StartMaintenance(ctx context.Context, asked *api.MaintenanceRequest) (w api.MaintenanceWindow, err error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	body, err := json.Marshal(asked)
	if err != nil {
		return w, err
	}
	req, err := c.newRequest(ctx, http.MethodPost, nil, bytes.NewReader(body), "api", "v1", "maintenance")
	if err != nil {
		return w, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.exchange(req)
	if err == nil {
		res, err = c.checked(ctx, res)
	}
	if err != nil {
		return w, err
	}
	return w, c.decode(ctx, res, &w)
}

// EndMaintenance ends a maintenance window that a client has started.
func (c *Client) EndMaintenance(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, nil, nil, "api", "v1", "maintenance", name)
}
