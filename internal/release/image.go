package main

import (
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group ID of the image: the usual ID of an unprivileged user in images.
const imageUser = 65532

// layout is an OCI image layout in memory.
type layout struct {
	blobs     []entry
	manifests []v1.Descriptor
}

// put adds a blob, and returns its descriptor.
func (l *layout) put(mediaType string, data []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	name := "blobs/sha256/" + d.Digest.Encoded()
	for _, b := range l.blobs {
		if b.name == name {
			return d
		}
	}
	l.blobs = append(l.blobs, entry{name: name, data: data})
	return d
}

// putJSON adds a document.
func (l *layout) putJSON(mediaType string, document any) (v1.Descriptor, error) {
	data, err := json.Marshal(document)
	return l.put(mediaType, data), err
}

// addImage adds the image for a platform to l.
func (r *release) addImage(l *layout, arch string, built []file, bom, licenses []byte) error {
	entries, err := r.imageFiles(built, bom, licenses)
	if err != nil {
		return err
	}
	data, err := packTree("", entries, r.date)
	if err != nil {
		return err
	}
	plain := digest.FromBytes(data)
	if data, err = compressed(data, gzip.DefaultCompression); err != nil {
		return err
	}
	layer := l.put(v1.MediaTypeImageLayerGzip, data)
	config, err := l.putJSON(v1.MediaTypeImageConfig, v1.Image{
		Created: &r.date, Author: "the authors of prober", Platform: platformOf(arch),
		Config:  imageConfig(r.labels()),
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{plain}},
		History: []v1.History{{Created: &r.date, CreatedBy: "make release"}},
	})
	if err != nil {
		return err
	}
	manifest, err := l.putJSON(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{layer}, Annotations: r.labels(),
	})
	platform := platformOf(arch)
	manifest.Platform = &platform
	l.manifests = append(l.manifests, manifest)
	return err
}

func platformOf(arch string) v1.Platform {
	p := v1.Platform{OS: "linux", Architecture: arch}
	if arch == "arm64" {
		p.Variant = "v8"
	}
	return p
}

// imageConfig returns the configuration of the image. As always, the agent listens on loopback by default, since other
// addresses need TLS and credentials.
func imageConfig(labels map[string]string) v1.ImageConfig {
	return v1.ImageConfig{
		User:       "65532:65532",
		WorkingDir: "/var/lib/prober",
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"XDG_RUNTIME_DIR=/run/prober", // for the socket, if a volume is mounted there
		},
		Entrypoint:   []string{"/usr/bin/prober"},
		Cmd:          []string{"run", "--config", "/etc/prober/prober.yaml", "-f", "/etc/prober/pods.d", "--plugins", "/etc/prober/plugins"},
		StopSignal:   "SIGTERM",
		ExposedPorts: map[string]struct{}{"9876/tcp": {}},
		Labels:       labels,
	}
}

// labels returns the annotations of the image that the OCI image specification defines.
func (r *release) labels() map[string]string {
	return map[string]string{
		v1.AnnotationTitle:         "prober",
		v1.AnnotationDescription:   "Probes of services, as a kubelet makes them",
		v1.AnnotationVersion:       r.version,
		v1.AnnotationCreated:       r.date.Format(time.RFC3339),
		v1.AnnotationSource:        "https://github.com/daeace23/prober",
		v1.AnnotationURL:           "https://github.com/daeace23/prober",
		v1.AnnotationDocumentation: "https://github.com/daeace23/prober/blob/main/docs/start/image.md",
		v1.AnnotationLicenses:      "Apache-2.0",
	}
}

// image returns the image layout as a tar file. It has one image, for all platforms.
func (r *release) image(l *layout) (f file, err error) {
	index := v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: l.manifests, Annotations: r.labels(),
	}
	all, err := l.putJSON(v1.MediaTypeImageIndex, index)
	if err != nil {
		return f, err
	}
	all.Annotations = map[string]string{v1.AnnotationRefName: strings.ReplaceAll(r.version, "+", "_")} // tags must not contain +
	top, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{all},
	})
	if err != nil {
		return f, err
	}
	mark, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return f, err
	}
	data, err := packTree("", append([]entry{{name: v1.ImageIndexFile, data: top}, {name: v1.ImageLayoutFile, data: mark}}, l.blobs...), r.date)
	return file{name: "prober_" + r.version + "_image.tar", data: data}, err
}

// imageFiles returns the files of the image.
func (r *release) imageFiles(built []file, bom, licenses []byte) ([]entry, error) {
	config, err := os.ReadFile(filepath.Join(r.source, "deploy/prober.yaml"))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return append(inPath(built), []entry{
		{name: "usr/share/doc/prober/LICENSE", data: license},
		{name: "usr/share/doc/prober/" + licensesFile, data: licenses},
		{name: "usr/share/doc/prober/prober.cdx.json", data: bom},
		{name: "etc/prober/prober.yaml", data: config},
		{name: "etc/prober/pods.d/"}, {name: "etc/prober/plugins/"},
		{name: "etc/passwd", data: []byte("root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/var/lib/prober:/sbin/nologin\n")},
		{name: "etc/group", data: []byte("root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n")},
		{name: "etc/ssl/certs/ca-certificates.crt", data: authorities()},
		{name: "tmp/", mode: 0o1777},
		{name: "run/prober/", mode: 0o700, user: imageUser},
		{name: "var/lib/prober/", mode: 0o700, user: imageUser},
	}...), nil
}

// authorities returns the certificates in PEM that Mozilla trusts without conditions. A PEM file cannot
// express conditions, such as a date up to which an authority is trusted.
func authorities() (all []byte) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}
