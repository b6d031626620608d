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
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/internal/regular"
)

const maxDockerConfig = 1 << 20 // bytes of docker's config.json

// What a credential helper may say, and how long its output is waited for once it has
// ended or was killed: something that it started may hold on to that.
const (
	maxHelperOutput = 64 << 10
	helperDelay     = time.Second
)

// helperName is what may follow docker-credential- in the name of a program.
var helperName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// dockerCredentials are those of docker's config.json, and of the helpers that it names.
type dockerCredentials struct {
	file    *credentials.FileStore
	helpers map[string]string // by registry
	helper  string            // of all others; "": none
}

// readDockerCredentials reads docker's config.json. One that does not exist has none.
func readDockerCredentials(path string) (*dockerCredentials, error) {
	var config struct {
		Store   string            `json:"credsStore"`
		Helpers map[string]string `json:"credHelpers"`
	}
	data, err := regular.Read(path, maxDockerConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := credentials.NewFileStore(path) // which would wait at a named pipe
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return nil, err
		}
	}
	return &dockerCredentials{file: file, helpers: config.Helpers, helper: config.Store}, nil
}

// credential implements [auth.CredentialFunc].
func (d *dockerCredentials) credential(ctx context.Context, registry string) (auth.Credential, error) {
	server := credentials.ServerAddressFromHostname(registry)
	if server == "" {
		return auth.EmptyCredential, nil
	}
	helper := d.helper
	if h := d.helpers[server]; h != "" {
		helper = h
	}
	if helper == "" {
		return d.file.Get(ctx, server)
	}
	credential, err := askHelper(ctx, helper, server)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("docker-credential-%.64s: %w", helper, err)
	}
	return credential, err
}

// askHelper runs a helper as docker does. It, and what it started, is killed at the
// context's end.
func askHelper(ctx context.Context, name, server string) (auth.Credential, error) {
	if !helperName.MatchString(name) {
		return auth.EmptyCredential, errors.New("no name of a helper")
	}
	var stdout, stderr bounded
	cmd := exec.CommandContext(ctx, "docker-credential-"+name, "get")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(server), &stdout, &stderr, helperDelay
	cmd.SysProcAttr = procgroup.Attr()
	cmd.Cancel = func() error { procgroup.Kill(cmd.Process.Pid); return nil }
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // the helper has ended, and what it started has its output open
		if cmd.SysProcAttr != nil { // without a group, the number may be another process's by now
			procgroup.Kill(cmd.Process.Pid)
		}
		err = nil
	}
	said := stdout.String()
	switch {
	case ctx.Err() != nil:
		return auth.EmptyCredential, context.Cause(ctx)
	case err != nil && said == "credentials not found in native keychain":
		return auth.EmptyCredential, nil
	case err != nil:
		if reason := oneLine(strings.TrimSpace(said + " " + stderr.String())); reason != "" {
			err = fmt.Errorf("%w: %s", err, reason)
		}
		return auth.EmptyCredential, err
	case stdout.full:
		return auth.EmptyCredential, fmt.Errorf("more than %d bytes", maxHelperOutput)
	}
	var c struct{ Username, Secret string }
	if err := json.Unmarshal([]byte(said), &c); err != nil {
		return auth.EmptyCredential, errors.New("what it said is no credential") // and may be a secret all the same
	}
	if c.Username == "<token>" {
		return auth.Credential{RefreshToken: c.Secret}, nil
	}
	return auth.Credential{Username: c.Username, Password: c.Secret}, nil
}

// bounded is a buffer that takes so many bytes and no more.
type bounded struct {
	bytes []byte
	full  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), maxHelperOutput-len(b.bytes))
	b.bytes, b.full = append(b.bytes, p[:room]...), b.full || room < len(p)
	return len(p), nil
}

// String returns what was taken, without the space around it.
func (b *bounded) String() string { return string(bytes.TrimSpace(b.bytes)) }
