package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// listMark begins the list of pages in the index of a section. The list ends with the file.
const listMark = "<!-- Written by `make docs` from the front matter of the pages. -->\n\n"

// reference is the index of the pages in docs itself. It is in no folder of docs, because docs/README.md is their
// index for readers of the repository.
const reference = "../internal/site/reference.md"

// sections returns the indexes of all sections by file, as they should be. dir is the folder of the documents.
func sections(dir string) (map[string]string, error) {
	indexes, err := filepath.Glob(filepath.Join(dir, "*", "_index.md"))
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, index := range append(indexes, filepath.Join(dir, reference)) {
		text, err := os.ReadFile(index)
		if err != nil {
			return nil, err
		}
		folders := []string{filepath.Dir(index)}
		if index == filepath.Join(dir, reference) {
			folders = []string{dir, filepath.Join(dir, "performance")}
		}
		list, err := listPages(filepath.Dir(index), folders)
		if err != nil {
			return nil, err
		}
		head, _, _ := strings.Cut(string(text), listMark)
		all[index] = strings.TrimRight(head, "\n") + "\n\n" + listMark + list
	}
	return all, nil
}

// listPages returns a list of the pages in each folder by weight, with links from the folder from.
func listPages(from string, folders []string) (string, error) {
	type page struct {
		Title, Description, link string
		Weight                   int
	}
	var list strings.Builder
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.md"))
		if err != nil {
			return "", err
		}
		var pages []page
		for _, file := range files {
			if name := filepath.Base(file); name == "_index.md" || name == "README.md" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			front, _, ok := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
			var p page
			if err := yaml.Unmarshal([]byte(front), &p); err != nil || !ok {
				return "", fmt.Errorf("%s: its front matter: %v", file, err)
			}
			link, err := filepath.Rel(from, file)
			if err != nil {
				return "", err
			}
			p.link = filepath.ToSlash(link)
			pages = append(pages, p)
		}
		slices.SortStableFunc(pages, func(a, b page) int { return cmp.Compare(a.Weight, b.Weight) })
		for _, p := range pages {
			fmt.Fprintf(&list, "- [%s](%s): %s\n", p.Title, p.link, p.Description)
		}
	}
	return list.String(), nil
}
