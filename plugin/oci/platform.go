package oci

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxPlatforms is the maximum number of platforms of an index.
const maxPlatforms = 64

// Platform is an operating system and an architecture, with the names of Go and OCI. The zero
// value means the host's platform.
type Platform struct{ OS, Architecture string }

// HostPlatform returns the platform that prober was built for.
func HostPlatform() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// platformPart matches an operating system or an architecture.
var platformPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]{1,32}$`) })

// ParsePlatform parses OS/ARCHITECTURE, such as linux/arm64.
func ParsePlatform(text string) (Platform, error) {
	os, architecture, _ := strings.Cut(text, "/")
	if p := (Platform{os, architecture}); p.valid() {
		return p, nil
	}
	return Platform{}, fmt.Errorf("%.80q is not a platform: must be OS/ARCHITECTURE, such as linux/arm64", text)
}

func (p Platform) valid() bool {
	return platformPart().MatchString(p.OS) && platformPart().MatchString(p.Architecture)
}

// String returns p in the form that [ParsePlatform] parses.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// orHost returns p, or the host's platform if p is zero.
func (p Platform) orHost() Platform {
	if p == (Platform{}) {
		return HostPlatform()
	}
	return p
}

// PlatformError is the error of a plugin that has no program for a platform.
type PlatformError struct {
	Want Platform
	Have []Platform
}

// Error names the platforms that the plugin has programs for.
func (e *PlatformError) Error() string {
	have := make([]string, len(e.Have))
	for i, p := range e.Have {
		have[i] = p.String()
	}
	slices.Sort(have)
	return fmt.Sprintf("has no program for %s; it has %s", e.Want, strings.Join(have, ", "))
}

// variant is the program of one platform.
type variant struct {
	Platform
	desc ocispec.Descriptor // its OCI manifest
}

// variantsOf parses an index and returns it with its programs, at least one. It ignores entries
// of other types, such as attestations that builders add.
func variantsOf(data []byte) (*ocispec.Index, []variant, error) {
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, nil, fmt.Errorf("index: %w", err)
	}
	if index.MediaType != ocispec.MediaTypeImageIndex { // without it, a client could parse the bytes as an OCI manifest
		return nil, nil, fmt.Errorf("is an index of images, %w", ErrNotPlugin)
	}
	if len(index.Manifests) > maxPlatforms {
		return nil, nil, fmt.Errorf("is an index of %d manifests; at most %d are allowed", len(index.Manifests), maxPlatforms)
	}
	var all []variant
	for _, d := range index.Manifests {
		if d.Platform == nil || d.ArtifactType != ArtifactType || d.MediaType != ocispec.MediaTypeImageManifest {
			continue
		}
		v := variant{Platform{d.Platform.OS, d.Platform.Architecture}, d}
		if !v.valid() {
			return nil, nil, fmt.Errorf("%.80q is not a platform", v.Platform.String())
		}
		if slices.ContainsFunc(all, func(o variant) bool { return o.Platform == v.Platform }) {
			return nil, nil, fmt.Errorf("has two programs for %s", v.Platform)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("is an index of images, %w", ErrNotPlugin)
	}
	return &index, all, nil
}

// choose returns the program for a platform, or a [PlatformError].
func choose(all []variant, on Platform) (variant, error) {
	missing := &PlatformError{Want: on}
	for _, v := range all {
		if v.Platform == on {
			return v, nil
		}
		missing.Have = append(missing.Have, v.Platform)
	}
	return variant{}, missing
}
