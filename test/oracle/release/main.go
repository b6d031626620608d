// Release prepares the oracle for another release of the kubelet than the one that the module requires. It
// prints the path of an overlay for `go test -overlay`:
//
//	go test -overlay "$(go run ./release 1.37)" -tags k8s136 .
//
// The overlay has the files of that release's prober and handlers from the module cache. They are compiled
// with the other packages of the required release. Code that does not compile with them is replaced, see
// releases. For a new release, add a line there, and a profile in package probe.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releases are the versions of k8s.io/kubernetes by release.
var releases = map[string]struct {
	version  string
	handlers bool     // its pkg/probe differs from the required version's
	differs  []string // pairs of old and new texts; each old text must be in its files
}{
	"1.35": {version: "v1.35.4"},
	"1.37": {version: "v1.37.2", handlers: true, differs: []string{
		"kubecontainer.ParseContainerID(logger, ", "kubecontainer.ParseContainerID(",
		// Feature gates that are off, with the code that they enable.
		"if p.HTTPGet.Protocol != nil && *p.HTTPGet.Protocol == v1.HTTPProtocolHTTP2 &&\n\t\t\tutilfeature.DefaultFeatureGate.Enabled(features.H2CContainerProbe) {", "if false {",
		"useTLS := utilfeature.DefaultFeatureGate.Enabled(features.GRPCContainerProbeTLS) &&\n\t\t\tp.GRPC.Mode != nil && *p.GRPC.Mode == v1.GRPCProbeModeTLS\n", "useTLS := false\n",
	}},
}

// The packages of the overlay: the folders in test/oracle, and the packages of Kubernetes.
var (
	core     = map[string]string{"prober": "pkg/kubelet/prober"}
	handlers = map[string]string{
		"probe": "pkg/probe", "probe/exec": "pkg/probe/exec", "probe/grpc": "pkg/probe/grpc", "probe/http": "pkg/probe/http", "probe/tcp": "pkg/probe/tcp",
	}
)

// imported is the import path of the release's handlers in its files, and here is the path that replaces it.
const imported, here = "\"k8s.io/kubernetes/pkg/probe", "\"github.com/daeace23/prober/test/oracle/probe"

// unused are imports that may be unused after texts are replaced.
var unused = []string{"\tutilfeature \"k8s.io/apiserver/pkg/util/feature\"\n", "\t\"k8s.io/kubernetes/pkg/features\"\n"}

func main() {
	if len(os.Args) != 2 {
		fatal(fmt.Errorf("usage: release RELEASE"))
	}
	path, err := overlay(os.Args[1])
	if err != nil {
		fatal(err)
	}
	fmt.Println(path)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "release:", err)
	os.Exit(1)
}

// overlay writes the files of a release and the overlay to the user's cache folder. It returns the path of
// the overlay.
func overlay(name string) (string, error) {
	release, ok := releases[name]
	if !ok {
		return "", fmt.Errorf("unknown release %q", name)
	}
	source, err := download(release.version)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	to := filepath.Join(cache, "prober", "oracle", name)
	found := make(map[string]bool)
	replaced := make(map[string]string)
	folders := maps.Clone(core)
	if release.handlers {
		maps.Copy(folders, handlers)
	}
	for folder, from := range folders {
		files, err := sources(filepath.Join(source, from))
		if err != nil {
			return "", err
		}
		for file, text := range files {
			text = adapt(text, release.differs, found)
			if release.handlers {
				text = strings.ReplaceAll(text, imported, here)
			}
			files[file] = text
		}
		if !strings.Contains(folder, "/") {
			files["release.go"] = fmt.Sprintf("package %s\n\nconst Release = %q\n", folder, name)
		}
		if err := replace(replaced, folder, filepath.Join(to, folder), files); err != nil {
			return "", err
		}
	}
	for i := 0; i < len(release.differs); i += 2 {
		if !found[release.differs[i]] {
			return "", fmt.Errorf("k8s.io/kubernetes@%s does not contain %q: change the table of releases", release.version, release.differs[i])
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(to, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// sources returns the Go files of a folder by name, without tests.
func sources(folder string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(path)] = string(data)
	}
	return files, nil
}

// replace writes files to the folder to. It adds them to replaced, in place of the only file of the package
// in the folder here.
func replace(replaced map[string]string, here, to string, files map[string]string) error {
	here, err := filepath.Abs(here)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	replaced[filepath.Join(here, filepath.Base(here)+".go")] = "" // an overlay deletes a file by an empty path
	for file, text := range files {
		path := filepath.Join(to, file)
		replaced[filepath.Join(here, "kubelet_"+file)] = path
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// adapt replaces the texts of differs in a file, and removes imports that are unused then. It records in
// found which texts the file has.
func adapt(text string, differs []string, found map[string]bool) string {
	for i := 0; i < len(differs); i += 2 {
		found[differs[i]] = found[differs[i]] || strings.Contains(text, differs[i])
		text = strings.ReplaceAll(text, differs[i], differs[i+1])
	}
	for _, line := range unused {
		name := strings.Trim(line[strings.LastIndex(line, "/")+1:], "\"\n")
		if alias, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			name = alias
		}
		if !strings.Contains(strings.ReplaceAll(text, line, ""), name+".") {
			text = strings.ReplaceAll(text, line, "")
		}
	}
	return text
}

// download downloads a version of Kubernetes to the module cache, and returns its folder.
func download(version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) == nil && module.Error != "" {
		return "", fmt.Errorf("k8s.io/kubernetes@%s: %s", version, module.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download k8s.io/kubernetes@%s: %w", version, err)
	}
	return module.Dir, nil
}
