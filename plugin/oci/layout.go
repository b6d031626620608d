package oci

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/internal/regular"
)

// maxIndex bounds the files of a layout without a declared size, in bytes.
const maxIndex = MaxManifest

// maxLoaded bounds the bytes that are read from one layout, since a small index may name many plugins.
const maxLoaded = 256 << 20

// layoutMark is the file that makes a folder an OCI layout.
const layoutMark = `{"imageLayoutVersion":"1.0.0"}`

// SaveDir writes an OCI layout with a to the folder dir, which it creates if it does not exist.
// In an existing layout, a replaces the plugin of the same name and tag. Its name in the index is
// NAME-TAG; tag may be empty.
func SaveDir(dir, tag string, a *Artifact) error {
	if err := a.complete(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	index, err := indexOf(root)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if a, err = joinLayout(filesIn(root), index, tag, a); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	all, err := layoutFiles(index, tag, a)
	if err != nil {
		return err
	}
	if err := root.MkdirAll("blobs/sha256", 0o755); err != nil {
		return err
	}
	for _, f := range all {
		if err := f.write(root); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// joinLayout returns a, and adds the programs that the layout has for other platforms, unless a
// already has several platforms.
func joinLayout(layout files, index *ocispec.Index, tag string, a *Artifact) (*Artifact, error) {
	at := slices.IndexFunc(index.Manifests, func(d ocispec.Descriptor) bool {
		return tag != "" && d.Annotations[ocispec.AnnotationRefName] == a.layoutName(tag)
	})
	if at < 0 || len(a.Platforms()) != 1 {
		return a, nil
	}
	old, err := getter(layout)(index.Manifests[at], MaxManifest)
	if err != nil {
		return nil, err
	}
	return a.join(blob{desc: index.Manifests[at], data: old})
}

// layoutName returns the name of a in the index of a layout.
func (a *Artifact) layoutName(tag string) string { return a.Manifest.Name + "-" + tag }

// complete returns an error if parts of a were not read.
func (a *Artifact) complete() error {
	if len(a.Platforms()) > 1 && a.rest == nil {
		return errors.New("it was read for one platform, so it cannot be saved completely")
	}
	return a.checkLayers()
}

// checkLayers returns an error if layers of a were not read.
func (a *Artifact) checkLayers() error {
	m, err := parseRoot(a.manifest())
	if err == nil && len(m.Layers)+1 != len(a.blobs) {
		err = errors.New("it has layers that prober does not know, so it cannot be saved completely")
	}
	return err
}

// indexOf returns the index of the layout in root, an empty one if the folder is empty.
func indexOf(root *os.Root) (*ocispec.Index, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return &ocispec.Index{}, nil
	}
	return readIndex(filesIn(root))
}

// files opens a file of a layout by its slash-separated name. It opens regular files only, and
// nothing outside the layout.
type files func(name string) (io.ReadCloser, error)

// filesIn returns a function that opens the files of a folder.
func filesIn(root *os.Root) files {
	return func(name string) (io.ReadCloser, error) { return regular.OpenIn(root, filepath.FromSlash(name)) }
}

// file is one file of a layout.
type file struct {
	name string
	data []byte
}

// layoutFiles adds a to index, and returns the files to write, the index last.
func layoutFiles(index *ocispec.Index, tag string, a *Artifact) ([]file, error) {
	files := []file{{"oci-layout", []byte(layoutMark)}}
	for _, b := range slices.Concat(a.blobs, a.rest, []blob{a.inner, a.root}) {
		if b.data == nil {
			continue
		}
		f := file{blobName(b.desc), b.data}
		if !slices.ContainsFunc(files, func(o file) bool { return o.name == f.name }) {
			files = append(files, f)
		}
	}
	desc := a.root.desc
	desc.ArtifactType = ArtifactType
	name := ""
	if tag != "" {
		name = a.layoutName(tag)
		desc.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	}
	others := slices.DeleteFunc(slices.Clone(index.Manifests), func(d ocispec.Descriptor) bool {
		return d.Digest == desc.Digest || name != "" && d.Annotations[ocispec.AnnotationRefName] == name
	})
	data, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: append(others, desc),
	})
	return append(files, file{"index.json", data}), err
}

func blobName(desc ocispec.Descriptor) string {
	return path.Join("blobs", desc.Digest.Algorithm().String(), desc.Digest.Encoded())
}

// write replaces the file in root. It renames a complete file to its name.
func (f file) write(root *os.Root) error {
	next := f.name + ".new"
	out, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(f.data)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		err = root.Rename(next, f.name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return nil
}

// Load returns the plugins of the OCI layout at path, a folder or a tar archive, in the order
// of its index. It selects programs for the platform on; zero means the host's. Load follows no
// link out of the layout. A layout without a plugin is an error.
func Load(path string, on Platform) ([]*Artifact, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var all []*Artifact
	if info.IsDir() {
		all, err = loadDir(path, on)
	} else {
		all, err = loadTar(path, on)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func loadDir(dir string, on Platform) ([]*Artifact, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return load(filesIn(root), on)
}

// load is [Load] for an open layout.
func load(layout files, on Platform) ([]*Artifact, error) {
	index, err := readIndex(layout)
	if err != nil {
		return nil, err
	}
	var (
		all   []*Artifact
		other error // the error for an entry that is not a plugin
		size  int
	)
	seen := make(map[string]bool)
	for _, desc := range index.Manifests {
		if seen[desc.Digest.String()] {
			continue // few bytes may name one plugin many times
		}
		seen[desc.Digest.String()] = true
		a, err := loadOne(layout, desc, on)
		switch {
		case errors.Is(err, ErrNotPlugin):
			other = err
		case err != nil:
			return nil, err
		case size+len(a.Module) > maxLoaded:
			return nil, fmt.Errorf("more than %d bytes of plugins", maxLoaded)
		case !slices.ContainsFunc(all, func(o *Artifact) bool { return o.Digest == a.Digest }):
			all = append(all, a)
			size += len(a.Module)
		}
	}
	if len(all) == 0 {
		if other == nil {
			other = fmt.Errorf("plugin %w", ErrNotFound)
		}
		return nil, other
	}
	return all, nil
}

func loadOne(layout files, desc ocispec.Descriptor, on Platform) (*Artifact, error) {
	get := getter(layout)
	root, err := get(desc, MaxManifest)
	if err != nil {
		return nil, err
	}
	a, err := read(blob{describe(desc.MediaType, root), root}, on, get)
	if _, ok := errors.AsType[*PlatformError](err); ok {
		err = fmt.Errorf("%s %w", cmp.Or(desc.Annotations[ocispec.AnnotationRefName], short(desc.Digest)), err)
	}
	return a, err
}

// getter returns a function that reads and verifies blobs of a layout.
func getter(layout files) fetch {
	return func(desc ocispec.Descriptor, most int64) ([]byte, error) {
		if err := checkDescriptor(desc, most); err != nil {
			return nil, err
		}
		f, err := layout(blobName(desc))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return verified(f, desc, most)
	}
}

func readIndex(layout files) (*ocispec.Index, error) {
	mark, err := readSmall(layout, "oci-layout")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("is not an OCI layout: it has no file oci-layout")
	}
	if err != nil {
		return nil, err
	}
	var version ocispec.ImageLayout
	if err := json.Unmarshal(mark, &version); err != nil || !strings.HasPrefix(version.Version, "1.") {
		return nil, fmt.Errorf("oci-layout: %.80q is not a version that prober reads", bytes.TrimSpace(mark))
	}
	data, err := readSmall(layout, "index.json")
	if err != nil {
		return nil, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	return &index, nil
}

// readSmall returns the contents of a file, which must have at most maxIndex bytes.
func readSmall(layout files, name string) ([]byte, error) {
	f, err := layout(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular.ReadAll(f, name, maxIndex)
}
