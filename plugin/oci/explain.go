package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin"
)

// explain returns err as one line that begins with ref.
func (c *Client) explain(ctx context.Context, ref plugin.Reference, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", ref, context.Cause(ctx))
	}
	response, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case answered && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		return c.unauthorized(ref)
	case errors.Is(err, errdef.ErrNotFound), answered && response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", ref, ErrNotFound)
	case answered:
		return fmt.Errorf("%s: the registry answered %d %s", ref, response.StatusCode, oneLine(reason(response)))
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: %w", ref, ErrPlainHTTP)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, since ref is clearer
	}
	return &refError{ref, err}
}

// unauthorized returns the error of a registry that requires credentials, or other ones.
func (c *Client) unauthorized(ref plugin.Reference) error {
	if c.config == "" {
		return fmt.Errorf("%s: %w: %s requires credentials, and there are none", ref, ErrUnauthorized, ref.Registry)
	}
	return fmt.Errorf("%s: %w: %s requires other credentials than %s has; `docker login %s` puts them there",
		ref, ErrUnauthorized, ref.Registry, c.config, ref.Registry)
}

// reason returns the registry's own message, or else the text of the status code.
func reason(response *errcode.ErrorResponse) string {
	if len(response.Errors) > 0 {
		return response.Errors.Error()
	}
	return http.StatusText(response.StatusCode)
}

// refError is err about ref, on one line.
type refError struct {
	ref plugin.Reference
	err error
}

func (e *refError) Error() string {
	if _, ok := errors.AsType[*PlatformError](e.err); ok || errors.Is(e.err, ErrNotPlugin) && strings.HasPrefix(e.err.Error(), "is ") {
		return e.ref.String() + " " + oneLine(e.err.Error())
	}
	return e.ref.String() + ": " + oneLine(e.err.Error())
}

func (e *refError) Unwrap() error { return e.err }

// maxReason bounds the bytes of a message of a registry.
const maxReason = 500

// oneLine returns text without control characters, cut at maxReason.
func oneLine(text string) string {
	return clip.Marked(explain.OneLine(text), maxReason, "…")
}
