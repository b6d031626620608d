package plugincmd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// platformFlag adds --platform, the platform of a program.
func platformFlag(c *cobra.Command, value *string, help string) {
	c.Flags().StringVar(value, "platform", "", help)
	command.NotFromEnv(c.Flags().Lookup("platform"))
}

// parsePlatform returns the platform that --platform names. "" is the host's.
func parsePlatform(text string) (oci.Platform, error) {
	if text == "" {
		return oci.HostPlatform(), nil
	}
	p, err := oci.ParsePlatform(text)
	if err != nil {
		return p, command.Usage("", "--platform: %w", err)
	}
	return p, nil
}

// manifestBeside returns the path of the manifest for the program at path.
func manifestBeside(path string) string { return strings.TrimSuffix(path, ".exe") + ".yaml" }

// packedProgram returns a program as an artifact, with the manifest beside it.
func packedProgram(f plugin.Found, on oci.Platform, signature []byte) (*oci.Artifact, error) {
	manifest, err := regular.Read(manifestBeside(f.Path), plugin.MaxManifest)
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	if plugin.Digest(manifest) != f.Beside { // a manifest is small enough to be read twice
		return nil, command.Usage("", "plugin %s: its manifest changed while it was read", f.Path)
	}
	if built := platformOf(f.Module); !runsOn(built, on) {
		return nil, command.Usage("--platform says for which platform a program is", "plugin %s: it was built for %s, not for %s", f.Path, strings.Trim(built.String(), "/"), on)
	}
	a, err := oci.PackProgram(oci.Program{Manifest: manifest, Code: f.Module, Signature: signature, Platform: on})
	if err != nil {
		return nil, command.Usage("", "plugin %s: %w", f.Path, err)
	}
	return a, nil
}

// runsOn reports whether a program that was built for one platform can run on another.
func runsOn(built, on oci.Platform) bool {
	switch {
	case built.Architecture != "" && built.Architecture != on.Architecture:
		return false
	case built.OS == "unix": // ELF does not tell Linux from others
		return on.OS != "windows" && on.OS != "darwin"
	}
	return built.OS == "" || built.OS == on.OS
}

// platformOf returns the platform that the header of a program names. Scripts have none.
func platformOf(code []byte) (p oci.Platform) {
	switch {
	case bytes.HasPrefix(code, []byte("MZ")):
		p.OS = "windows"
	case bytes.HasPrefix(code, []byte("\xcf\xfa\xed\xfe")):
		p.OS = "darwin"
	case bytes.HasPrefix(code, []byte("\x7fELF")) && len(code) > 20:
		p.OS = "unix"
		var order binary.ByteOrder = binary.LittleEndian
		if code[5] == 2 {
			order = binary.BigEndian
		}
		p.Architecture = map[uint16]string{3: "386", 22: "s390x", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64"}[order.Uint16(code[18:])]
	}
	return p
}

// programPath returns the path to write a program to: the file out, or a file in the folder out or in the
// working folder. Its name must start with prober-plugin-, since plugin folders ignore other names.
func programPath(a *oci.Artifact, out string) (string, error) {
	name := oci.ProgramFile(a.Manifest.Name, a.Platform)
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return filepath.Join(out, name), nil
	}
	if out == "" {
		return name, nil
	}
	if !plugin.IsProcess(filepath.Base(out)) {
		return "", command.Usage("", "-o %s: a program must be called %sNAME; want such a file, or a folder", out, plugin.ProcessPrefix)
	}
	return out, nil
}

// platformsOf returns the platforms of a for a message, and "" if there is only one.
func platformsOf(a *oci.Artifact) string {
	all := a.Platforms()
	if len(all) < 2 {
		return ""
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.String()
	}
	return fmt.Sprintf(", which is there for %s", strings.Join(names, ", "))
}
