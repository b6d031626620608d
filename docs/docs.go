// Package docs embeds documents of this folder into the program.
package docs

import _ "embed"

// OpenAPI describes an agent's HTTP API: JSON of OpenAPI 3.1. internal/openapidoc writes it.
//
//go:embed openapi.json
var OpenAPI string
