package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build is what the go command needs to compile the peers with their adapters: an overlay, and a go.mod that
// replaces their modules by links to the module cache, because the go command refuses overlays in it.
type build struct {
	folder   string // in the user's cache
	replaced map[string]string
	links    string // lines of go.mod
}

func newBuild() (*build, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	b := &build{folder: filepath.Join(cache, "prober", "peers"), replaced: make(map[string]string)}
	return b, os.MkdirAll(b.folder, 0o700)
}

// add adds the adapter of a peer, and its files without the replaced declarations.
func (b *build) add(p *peer) error {
	module, err := download(p.module)
	if err != nil {
		return err
	}
	link := filepath.Join(b.folder, p.name)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(module, link); err != nil {
		return err
	}
	b.links += fmt.Sprintf("replace %s => %s\n", p.module, link)
	folder := filepath.Join(link, p.folder)
	if b.replaced[filepath.Join(folder, "adapter.go")], err = filepath.Abs(filepath.Join(p.name, "adapter.go")); err != nil {
		return err
	}
	for file, r := range p.replaces {
		source := filepath.Join(folder, file)
		if b.replaced[source], err = r.write(source, filepath.Join(b.folder, p.name+"_"+file)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// write writes the overlay and the go.mod.
func (b *build) write() error {
	overlay, err := json.Marshal(map[string]any{"Replace": b.replaced})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(b.folder, "overlay.json"), overlay, 0o600),
		os.WriteFile(filepath.Join(b.folder, "go.mod"), append(mod, b.links...), 0o600),
		os.WriteFile(filepath.Join(b.folder, "go.sum"), sum, 0o600))
}

// flags returns the flags of go test.
func (b *build) flags() []string {
	if *own {
		return nil
	}
	return []string{"-overlay", filepath.Join(b.folder, "overlay.json"), "-modfile", filepath.Join(b.folder, "go.mod")}
}

// download downloads the version of a module that go.mod requires, and returns its folder.
func download(module string) (folder string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		return "", fmt.Errorf("%s: %s", module, answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	return answer.Dir, nil
}
