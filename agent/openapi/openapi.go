// Package openapi has the description of an agent's HTTP API. internal/openapidoc writes it, and
// docs/openapi.json is the same file.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document returns the description: JSON of OpenAPI 3.1. The caller must not change it.
func Document() []byte { return document }
