package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/internal/regular"
)

const (
	maxDockerConfig = 1 << 20  // bytes of docker's config.json
	maxHelperOutput = 64 << 10 // bytes of the output of a credential helper
)

// helperName matches the part after docker-credential- in the name of a helper program.
var helperName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`) })

// dockerConfig is the part of docker's config.json about credential helpers.
type dockerConfig struct {
	Helper  string            `json:"credsStore"`  // for registries not in Helpers; "" for none
	Helpers map[string]string `json:"credHelpers"` // by registry
}

// dockerCredentials returns a function that looks up credentials in docker's config.json at path,
// or asks the helpers that it names. A file that does not exist has no credentials.
func dockerCredentials(path string) (auth.CredentialFunc, error) {
	data, err := regular.Read(path, maxDockerConfig) // oras would wait for the writer of a pipe
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := credentials.NewFileStore(path)
	if err != nil {
		return nil, err
	}
	var config dockerConfig
	if len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, registry string) (auth.Credential, error) {
		server := credentials.ServerAddressFromHostname(registry)
		if server == "" {
			return auth.EmptyCredential, nil
		}
		helper := config.Helper
		if h := config.Helpers[server]; h != "" {
			helper = h
		}
		if helper == "" {
			return file.Get(ctx, server)
		}
		credential, err := runHelper(ctx, helper, server)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("docker-credential-%.64s: %w", helper, err)
		}
		return credential, err
	}, nil
}

// runHelper runs a credential helper as docker does. It does not use oras, which waits for all
// processes that the helper has started, keeps output of any length, and passes the stderr of
// prober to the helper. runHelper kills the process group of the helper when the helper exits or
// ctx ends.
func runHelper(ctx context.Context, name, server string) (auth.Credential, error) {
	if !helperName().MatchString(name) {
		return auth.EmptyCredential, errors.New("not the name of a credential helper")
	}
	stdout, stderr := &procgroup.Head{Limit: maxHelperOutput}, &procgroup.Head{Limit: maxReason}
	cmd := exec.Command("docker-credential-"+name, "get")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(server), stdout, stderr
	cmd.SysProcAttr, cmd.WaitDelay = procgroup.Attr(), procgroup.OutputGrace
	_, err := procgroup.Run(ctx, cmd, nil)
	if errors.Is(err, exec.ErrWaitDelay) { // it exited 0; a process outside its group holds the output open
		err = nil
	}
	output := bytes.TrimSpace(stdout.Bytes)
	switch {
	case ctx.Err() != nil:
		return auth.EmptyCredential, context.Cause(ctx)
	case err != nil && string(output) == "credentials not found in native keychain":
		return auth.EmptyCredential, nil
	case err != nil:
		if reason := strings.TrimSpace(oneLine(string(output) + " " + string(stderr.Bytes))); reason != "" {
			err = fmt.Errorf("%w: %s", err, reason)
		}
		return auth.EmptyCredential, err
	case stdout.More:
		return auth.EmptyCredential, fmt.Errorf("output of more than %d bytes", maxHelperOutput)
	}
	var c struct{ Username, Secret string }
	if err := json.Unmarshal(output, &c); err != nil {
		return auth.EmptyCredential, errors.New("the output is not a credential") // not quoted: it may be a secret
	}
	if c.Username == "<token>" {
		return auth.Credential{RefreshToken: c.Secret}, nil
	}
	return auth.Credential{Username: c.Username, Password: c.Secret}, nil
}
