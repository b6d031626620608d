// Generate writes the Go code of prober_plugin_v1.proto into a folder: `go run ./generate [FOLDER]`
// in internal/pluginpb. It needs protoc (Debian's protobuf-compiler). It downloads the generators
// for Go in the versions below.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var generators = map[string]string{
	"protoc-gen-go":      "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
	"protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
}

func main() {
	into := "."
	if len(os.Args) > 1 {
		into = os.Args[1]
	}
	if err := generate(into); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(into string) error {
	tools, err := os.MkdirTemp("", "pluginpb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tools)
	args := []string{"--go_out=" + into, "--go_opt=paths=source_relative", "--go-grpc_out=" + into, "--go-grpc_opt=paths=source_relative"}
	for name, module := range generators {
		// Outside of this module, because the module must not require the generators.
		build := exec.Command("go", "install", module)
		build.Dir = tools
		build.Env = append(os.Environ(), "GOBIN="+tools)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("%s: %w", module, err)
		}
		args = append(args, "--plugin="+name+"="+filepath.Join(tools, name))
	}
	protoc := exec.Command("protoc", append(args, "prober_plugin_v1.proto")...)
	protoc.Stdout, protoc.Stderr = os.Stderr, os.Stderr
	return protoc.Run()
}
