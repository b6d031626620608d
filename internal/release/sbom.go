package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// bom is a CycloneDX 1.6 document, with the used fields.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []choice   `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// choice is one license of a component.
type choice struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// sbom returns the SBOM of a program: the modules in its build information, and Go's standard library. Each of them must
// be in licenses.
func sbom(program []byte, licenses []licensed, version string, date time.Time) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	if version[0] >= '0' && version[0] <= '9' {
		version = "v" + version // as Go spells it
	}
	self := library(info.Main.Path, version, "")
	self.Type, self.Hashes = "application", []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b := bom{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, SerialNumber: serial(sum),
		Metadata:   metadata{date.Format(time.RFC3339), self},
		Components: []component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, library(m.Path, m.Version, m.Sum))
	}
	kinds := make(map[string][]string)
	for _, m := range licenses {
		kinds[m.name] = m.kinds
	}
	links := dependency{Ref: self.Ref}
	for i := range b.Components {
		c := &b.Components[i]
		if len(kinds[c.Name+" "+c.Version]) == 0 {
			return nil, fmt.Errorf("%s %s is linked, and its license is not known", c.Name, c.Version)
		}
		for _, id := range kinds[c.Name+" "+c.Version] {
			var l choice
			l.License.ID = id
			c.Licenses = append(c.Licenses, l)
		}
		links.DependsOn = append(links.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{links}
	data, err := json.MarshalIndent(b, "", "  ")
	return append(data, '\n'), err
}

// library returns the component for a module. sum is its hash in go.sum; "" omits it.
func library(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Ref: purl, Type: "library", Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go.sum", sum}}
	}
	return c
}

// serial returns a UUID that depends only on the program.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
