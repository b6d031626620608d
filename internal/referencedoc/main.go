// Referencedoc writes the pages of reference from the code: prober-yaml.md, annotation.md and flags.md. It also writes
// the lists of pages in the indexes of sections, from the front matter of the pages, the JSON Schemas of files, and the
// custom resources of a cluster.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../../docs

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: referencedoc FOLDER")
		os.Exit(64)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "referencedoc:", err)
		os.Exit(1)
	}
}

// pages are the generated pages by file.
var pages = map[string]func() (string, error){
	"annotation.md":  annotationPage,
	"flags.md":       flagsPage,
	"prober-yaml.md": proberYAMLPage,
}

func write(dir string) error {
	for file, page := range pages {
		text, err := page()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	indexes, err := sections(dir)
	editors, schemaErr := schemas(dir)
	err = errors.Join(err, schemaErr)
	for file, text := range editors {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "schemas", file), []byte(text), 0o644))
	}
	resources, crdErr := crds()
	if err = errors.Join(err, crdErr); err == nil {
		err = os.WriteFile(filepath.Join(dir, crdsFile), []byte(resources), 0o644)
	}
	for file, text := range indexes {
		err = errors.Join(err, os.WriteFile(file, []byte(text), 0o644))
	}
	return err
}

// head returns the beginning of a page.
func head(title string, weight int, description, source string) string {
	return fmt.Sprintf("---\ntitle: %s\nweight: %d\ndescription: %s\n---\n# %[1]s\n\n<!-- Written by `make docs` from %[4]s. Do not edit. -->\n\n", title, weight, description, source)
}
