// Openapidoc writes docs/openapi.json from operations.go, and from the types of agent/api and their
// comments. Agents serve the document.
//
// Read operations.go first: add new paths of the agent there.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

//go:generate go run . ../../docs/openapi.json

// typesDir is the folder with the types of the API.
const typesDir = "../../agent/api"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapidoc FILE")
		os.Exit(64)
	}
	text, err := generate(typesDir)
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// object is a JSON object.
type object = map[string]any

// generate returns the document. dir has the source of the types.
func generate(dir string) ([]byte, error) {
	comments, err := readComments(dir)
	if err != nil {
		return nil, err
	}
	s := &schemas{comments: comments, components: make(object)}
	paths := make(object)
	for i := range operations {
		o := &operations[i]
		item, ok := paths[o.path].(object)
		if !ok {
			item = make(object)
			paths[o.path] = item
		}
		item[o.method] = o.describe(s)
	}
	if s.err != nil {
		return nil, s.err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "prober", "version": "v1", "summary": "The HTTP API of a running agent",
			"description": about, "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{object{"url": "http://127.0.0.1:9876", "description": "the default address of an agent"}},
		"tags":    tags,
		"paths":   paths,
		"components": object{
			"schemas": s.components,
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer", "description": "The token of --token-file. The agent's unix socket needs none."},
				"tokenHeader": object{
					"type": "apiKey", "in": "header", "name": "X-Prober-Token",
					"description": "The token, where the Authorization header has the name and password of a user.",
				},
				"user": object{"type": "http", "scheme": "basic", "description": "A user of --web.config.file. Users read."},
			},
		},
	})
	return b.Bytes(), err
}
