// Release prepares the oracle for another release of the kubelet than the one that the module requires, and
// prints the path of an overlay for `go test -overlay`:
//
//	go test -overlay "$(go run ./release 1.37)" -tags k8s136 .
//
// The prober's files of that release come from the module cache, and are compiled on the other packages of
// the required one. What does not fit is replaced, see releases. A new release is a line there, and a profile
// in package probe.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releases are the versions of k8s.io/kubernetes by release, and the texts of their files that do not fit the
// required version, in pairs. Each must be found.
var releases = map[string]struct {
	version string
	differs []string
}{
	"1.35": {version: "v1.35.4"},
	"1.37": {version: "v1.37.2", differs: []string{
		"kubecontainer.ParseContainerID(logger, ", "kubecontainer.ParseContainerID(",
		// Feature gates that are off, with the code behind them.
		"if p.HTTPGet.Protocol != nil && *p.HTTPGet.Protocol == v1.HTTPProtocolHTTP2 &&\n\t\t\tutilfeature.DefaultFeatureGate.Enabled(features.H2CContainerProbe) {", "if false {",
		"useTLS := utilfeature.DefaultFeatureGate.Enabled(features.GRPCContainerProbeTLS) &&\n\t\t\tp.GRPC.Mode != nil && *p.GRPC.Mode == v1.GRPCProbeModeTLS\n", "useTLS := false\n",
		"pb.http.ProbeH2C(", "pb.http.Probe(",
		", timeout, grpcprobe.ProbeOptions{UseTLS: useTLS})", ", timeout)",
	}},
}

// files are the files of pkg/kubelet/prober.
var files = []string{"prober.go", "prober_manager.go", "worker.go"}

// unused are imports that a replaced text may have been the only use of.
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

// overlay writes the files of a release to a folder of the user's cache, and returns the path of the overlay.
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
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	here, err := filepath.Abs("prober")
	if err != nil {
		return "", err
	}
	found := make(map[string]bool)
	replaced := map[string]string{filepath.Join(here, "prober.go"): ""} // is not there
	write := func(file, text string) error {
		replaced[filepath.Join(here, "kubelet_"+file)] = filepath.Join(to, file)
		return os.WriteFile(filepath.Join(to, file), []byte(text), 0o600)
	}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(source, "pkg/kubelet/prober", file))
		if err != nil {
			return "", err
		}
		if err := write(file, fitting(string(data), release.differs, found)); err != nil {
			return "", err
		}
	}
	for i := 0; i < len(release.differs); i += 2 {
		if !found[release.differs[i]] {
			return "", fmt.Errorf("k8s.io/kubernetes@%s has no %q any more: change the table of releases", release.version, release.differs[i])
		}
	}
	if err := write("release.go", fmt.Sprintf("package prober\n\nconst Release = %q\n", name)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(to, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// fitting returns a file with its texts replaced, and without imports that are not used any more.
func fitting(text string, differs []string, found map[string]bool) string {
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

// download returns the folder of a version of Kubernetes.
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
