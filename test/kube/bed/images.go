//go:build linux

package bed

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The images of the cluster. The cluster cannot pull others.
const (
	AppImage    = "prober.test/app:1"   // test/kube/testapp as /app
	PauseImage  = "prober.test/pause:1" // the sandbox image
	ProberImage = "localhost/prober:bed"
)

// buildImages builds the programs of this module, and returns archives of their images.
func buildImages() (archives []string, err error) {
	for ref, program := range map[string]string{AppImage: "testapp", PauseImage: "pause"} {
		file := filepath.Join(Dir, program)
		if err := goBuild(file, program); err != nil {
			return nil, err
		}
		archive := file + ".tar"
		if err := writeImage(archive, ref, file); err != nil {
			return nil, fmt.Errorf("image %s: %w", ref, err)
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// goBuild builds the program in folder, which is relative to this module. There is no network.
func goBuild(file, folder string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", file, ".")
	cmd.Dir = filepath.Join(module, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", cmd.Dir, err, out)
	}
	return nil
}

// writeImage writes an image with one program as /app, in the format of docker save.
func writeImage(archive, ref, program string) error {
	layer, err := layerOf(program)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/app"}, Env: []string{"PATH=/"}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, image)
}

// layerOf returns a layer with a program as /app, and /tmp.
func layerOf(program string) (v1.Layer, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, header := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeReg, Name: "app", Mode: 0o755, Size: int64(len(data))},
	} {
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
}

// importImage imports the archive of an image into the namespace of containerd that the kubelet uses.
func importImage(archive string, flags ...string) error {
	return run("ctr", append(append([]string{"--namespace=k8s.io", "images", "import"}, flags...), archive)...)
}

// ImportProber builds the image of a release, and imports it as [ProberImage], once for all tests.
func (c *Cluster) ImportProber(t testing.TB) {
	t.Helper()
	release.once.Do(func() { release.err = importRelease(t.TempDir()) })
	if release.err != nil {
		t.Fatal(release.err)
	}
}

var release struct {
	once sync.Once
	err  error
}

// importRelease builds a release in a folder, and imports its image.
func importRelease(dist string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "run", "./internal/release", "-version=bed", "-platforms=linux/"+runtime.GOARCH, "-out="+dist)
	cmd.Dir = filepath.Join(module, "../..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build of the release: %w\n%s", err, out)
	}
	return importImage(filepath.Join(dist, "prober_bed_image.tar"), "--base-name=localhost/prober")
}
