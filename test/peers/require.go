//go:build peers

package main

// What the adapters and the peers' tests need, for go.mod.
import (
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/hashicorp/consul/agent/checks"
	_ "github.com/traefik/traefik/v3/pkg/healthcheck"

	_ "github.com/daeace23/prober/core/endpoint"
)
