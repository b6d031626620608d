package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
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
		late := fmt.Errorf("%s: %w", ref, context.Cause(ctx))
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &unavailableError{late}
		}
		return late
	}
	response, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case answered && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		return c.unauthorized(ref)
	case errors.Is(err, errdef.ErrNotFound), answered && response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", ref, ErrNotFound)
	case answered:
		err = fmt.Errorf("%s: the registry answered %d %s", ref, response.StatusCode, oneLine(reason(response)))
		if temporaryStatus(response.StatusCode) {
			return &unavailableError{err}
		}
		return err
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: %w", ref, ErrPlainHTTP)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, since ref is clearer
	}
	if isNetwork(err) {
		return &unavailableError{&refError{ref, err}}
	}
	return &refError{ref, err}
}

// unavailableError wraps an error of a registry that is not available. It has the same text.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

// Is makes it match [ErrUnavailable].
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

// temporaryStatus reports whether the same request may succeed later.
func temporaryStatus(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// refusedAddressErrors are the errors for addresses that a registry may not have or refer to.
var refusedAddressErrors = []error{errNotHTTPS, errMetadata, errNoHost, errNearerNetwork, errUnknownAddress, errInvalidHost}

// isNetwork reports whether err is a network error: of a lookup, of a connection, or an unexpected
// end of one. Untrusted certificates and refused addresses are not network errors.
func isNetwork(err error) bool {
	if slices.ContainsFunc(refusedAddressErrors, func(refusal error) bool { return errors.Is(err, refusal) }) {
		return false
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// unauthorized returns the error for a registry that requires credentials or rejects the given ones.
func (c *Client) unauthorized(ref plugin.Reference) error {
	if c.config == "" {
		return fmt.Errorf("%s: %w: %s requires credentials, and none are configured", ref, ErrUnauthorized, ref.Registry)
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

// maxReason is the maximum length of a registry's message, in bytes.
const maxReason = 500

// oneLine returns text without control characters, cut at maxReason.
func oneLine(text string) string {
	return clip.Marked(explain.OneLine(text), maxReason, "…")
}
