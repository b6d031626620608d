package oci

import (
	"context"
	"errors"
	"io/fs"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/daeace23/prober/internal/regular"
)

const maxDockerConfig = 1 << 20 // bytes of docker's config.json

// dockerCredentials returns the credentials of docker's config.json, and of the helpers that it
// names. A file that does not exist has none.
func dockerCredentials(path string) (auth.CredentialFunc, error) {
	if _, err := regular.Read(path, maxDockerConfig); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // oras would wait for the writer of a pipe
	}
	store, err := credentials.NewStore(path, credentials.StoreOptions{})
	if err != nil {
		return nil, err
	}
	get := credentials.Credential(store)
	return func(ctx context.Context, registry string) (auth.Credential, error) {
		type answer struct {
			credential auth.Credential
			err        error
		}
		answers := make(chan answer, 1)
		go func() { // a process that a helper has started may keep it waiting beyond ctx
			credential, err := get(ctx, registry)
			answers <- answer{credential, err}
		}()
		select {
		case a := <-answers:
			return a.credential, a.err
		case <-ctx.Done():
			return auth.EmptyCredential, context.Cause(ctx)
		}
	}, nil
}
