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
	return w, c.postJSON(ctx, asked, &w, "api", "v1", "maintenance")
}

// AddNote adds a note to an incident, and returns the incident.
func (c *Client) AddNote(ctx context.Context, id, text string) (n api.IncidentStatus, err error) {
	return n, c.postJSON(ctx, api.NoteRequest{Text: text}, &n, "api", "v1", "incidents", id, "notes")
}

// postJSON sends a value in JSON, and decodes the response into the value at into.
func (c *Client) postJSON(ctx context.Context, value, into any, segments ...string) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	req, err := c.newRequest(ctx, http.MethodPost, nil, bytes.NewReader(body), segments...)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.exchange(req)
	if err == nil {
		res, err = c.checked(ctx, res)
	}
	if err != nil {
		return err
	}
	return c.decode(ctx, res, into)
}

// EndMaintenance ends a maintenance window that a client has started.
func (c *Client) EndMaintenance(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, nil, nil, "api", "v1", "maintenance", name)
}
