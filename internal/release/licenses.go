package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licensesFile is the name of the file with the licenses of linked code.
const licensesFile = "THIRD_PARTY_LICENSES.txt"

// licensed is a module that the programs link, or Go's standard library, and its license files.
type licensed struct {
	name  string            // path and version
	files map[string]string // texts by path within the module
	kinds []string          // SPDX identifiers, sorted
}

// licensesText returns the file with the licenses of modules.
func (r *release) licensesText(modules []licensed) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("Licenses of the code that prober links. prober itself: Apache-2.0, see LICENSE.\n\n")
	users := make(map[string][]string) // modules by text
	for _, m := range modules {
		fmt.Fprintf(&b, "%s: %s\n", m.name, strings.Join(m.kinds, ", "))
		for _, text := range m.files {
			users[text] = append(users[text], m.name)
		}
	}
	texts := slices.SortedFunc(maps.Keys(users), func(a, b string) int {
		return strings.Compare(strings.Join(users[a], "\n")+a, strings.Join(users[b], "\n")+b)
	})
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(slices.Compact(users[text]), "\n"), strings.TrimSpace(text))
	}
	shipped, err := os.ReadFile(filepath.Join(r.source, "handlers/shipped/LICENSES.txt"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "\n%s\nhandlers/shipped\n\n%s\n", strings.Repeat("=", 80), bytes.TrimSpace(shipped))
	return b.Bytes(), nil
}

// listed is a package as go list prints it, with the fields that are used here.
type listed struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version, Dir string }
	}
}

// linked returns Go's standard library and the modules of the packages that the programs link, in the order of their
// names. A module without a license, or with one that kindOf does not know, is an error.
func (r *release) linked(goos, goarch string) ([]licensed, error) {
	args := []string{"list", "-deps", "-json=Dir,Standard,Module"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.Command(r.goTool, args...)
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of the programs: %w", err)
	}
	modules := make(map[string]licensed)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the packages of the programs: %w", err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		name, dir := p.Module.Path+" "+p.Module.Version, p.Module.Dir
		if replace := p.Module.Replace; replace != nil {
			name, dir = strings.TrimSpace(replace.Path+" "+replace.Version), replace.Dir
		}
		m := modules[name]
		if m.files == nil {
			m = licensed{name: name, files: make(map[string]string)}
			modules[name] = m
		}
		for at := p.Dir; strings.HasPrefix(at, dir); at = filepath.Dir(at) {
			if err := m.read(dir, at); err != nil {
				return nil, err
			}
		}
	}
	std, err := r.standard()
	if err != nil {
		return nil, err
	}
	found := []licensed{std}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		found = append(found, modules[name])
	}
	for i := range found {
		if err := found[i].classify(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// classify sets the kinds of a module.
func (m *licensed) classify() error {
	kinds := make(map[string]bool)
	for path, text := range m.files {
		if kind := kindOf(text); kind != "" {
			kinds[kind] = true
		} else if !notice.MatchString(filepath.Base(path)) {
			return fmt.Errorf("%s: %s is none of the known licenses", m.name, path)
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("%s has no license", m.name)
	}
	m.kinds = slices.Sorted(maps.Keys(kinds))
	return nil
}

// standard returns Go's standard library.
func (r *release) standard() (licensed, error) {
	out, err := exec.Command(r.goTool, "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return licensed{}, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	m := licensed{name: "stdlib " + strings.TrimPrefix(version, "go"), files: make(map[string]string)}
	return m, m.read(root, root)
}

var (
	licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)([.-].*)?$`)
	// notice matches names of files that a license may require to be passed on, and that are no license.
	notice = regexp.MustCompile(`(?i)^(notice|patents)`)
)

// read adds the license files in a folder of the module in root.
func (m *licensed) read(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.IsDir() || !licenseName.MatchString(e.Name()) || ext == ".go" || ext == ".docs" {
			continue // code, or the license of documents that are not linked
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		m.files[filepath.ToSlash(path)] = string(text)
	}
	return nil
}

// kinds are the licenses that prober may link, by a sentence that each of their texts has.
var kinds = []struct{ id, sentence string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"Apache-2.0", "Licensed under the Apache License, Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms, with or without modification, are permitted"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
}

// kindOf returns the SPDX identifier of a license's text, or "" for an unknown one.
func kindOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, k := range kinds {
		if strings.Contains(text, k.sentence) {
			return k.id
		}
	}
	return ""
}
