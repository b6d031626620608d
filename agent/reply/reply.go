// Package reply writes the JSON responses of an agent's HTTP API. Read this file only.
package reply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/daeace23/prober/agent/api"
)

// JSON responds with v as JSON.
func JSON(w http.ResponseWriter, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		Fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // an error means that the client has left
}

// Fail responds with an error, as an [api.Status].
func Fail(w http.ResponseWriter, code int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	status := api.Status{Kind: "Status", APIVersion: "v1", Status: "Failure", Message: message, Reason: reasons[code], Code: code}
	//lint:ignore SA1019 Older clients read Error.
	status.Error = message
	text, err := json.Marshal(status)
	if err != nil {
		text = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure"}`) // cannot happen
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}

// reasons maps HTTP status codes to the reasons of Kubernetes.
var reasons = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
	http.StatusNotFound: "NotFound", http.StatusMethodNotAllowed: "MethodNotAllowed", http.StatusConflict: "Conflict",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge", http.StatusTooManyRequests: "TooManyRequests",
	http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "ServiceUnavailable",
}

// Router returns mux, except that it responds with an [api.Status] to unknown paths and to methods that a
// path does not support.
func Router(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := &errorWriter{ResponseWriter: w}
		mux.ServeHTTP(refusal, r)
		switch refusal.status {
		case http.StatusNotFound:
			Fail(w, refusal.status, "there is no such path; GET /api/v1/ lists them")
		case http.StatusMethodNotAllowed:
			Fail(w, refusal.status, "the method %.20q is not allowed here; allowed: %s", r.Method, w.Header().Get("Allow"))
		}
	})
}

// errorWriter keeps the status of an error, and drops its text.
type errorWriter struct {
	http.ResponseWriter
	status int // 0 if the response is no error
}

// WriteHeader implements [http.ResponseWriter].
func (e *errorWriter) WriteHeader(status int) {
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		e.status = status
		return
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (e *errorWriter) Write(text []byte) (int, error) {
	if e.status != 0 {
		return len(text), nil
	}
	return e.ResponseWriter.Write(text)
}
