//go:build unix

package oci_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// outsideVar is the environment variable with a script. If it is set, the test binary runs the
// script in a new session, outside the process group of its parent.
const outsideVar = "PROBER_TEST_OUTSIDE"

func init() {
	script := os.Getenv(outsideVar)
	if script == "" {
		return
	}
	_, err := syscall.Setsid()
	if err == nil {
		err = syscall.Exec("/bin/sh", []string{"sh", "-c", script}, nil)
	}
	panic(err)
}

func TestCredentials(t *testing.T) {
	h := registrytest.New(t)
	h.Intercept(requireLogin)
	a := pack(t, "1.0.0", "")
	ref := h.Ref(t, "demo:1")
	dir := t.TempDir()
	config := func(text string) string {
		t.Helper()
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("none", func(t *testing.T) {
		err := client(t, oci.ClientConfig{}).Push(t.Context(), ref, a)
		wantError(t, err, ref.String()+": unauthorized: "+h.Host+" requires credentials, and none are configured")
	})
	t.Run("no config", func(t *testing.T) {
		path := filepath.Join(dir, "nosuch.json")
		_, err := client(t, oci.ClientConfig{DockerConfig: path}).Pull(t.Context(), ref)
		wantError(t, err, "unauthorized", "requires other credentials than "+path+" has; `docker login "+h.Host+"` puts them there")
	})
	t.Run("wrong", func(t *testing.T) {
		path := config(fmt.Sprintf(`{"auths":{%q:{"auth":"bWU6d3Jvbmc="}}}`, h.Host))
		_, err := client(t, oci.ClientConfig{DockerConfig: path}).Pull(t.Context(), ref)
		wantError(t, err, "unauthorized")
	})
	t.Run("right", func(t *testing.T) {
		c := client(t, oci.ClientConfig{DockerConfig: config(fmt.Sprintf(`{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, h.Host))})
		push(t, c, ref, a)
		got, err := c.Pull(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, a)
	})
	helper := func(script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "docker-credential-demo"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	helped := config(`{"credsStore":"demo"}`)
	t.Run("helper", func(t *testing.T) {
		helper(`read host; echo "{\"ServerURL\":\"$host\",\"Username\":\"me\",\"Secret\":\"secret\"}"` + "\n")
		if _, err := client(t, oci.ClientConfig{DockerConfig: helped}).Pull(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
	t.Run("helper that hangs ends with context", func(t *testing.T) {
		started, held := pipe(t, dir, "started"), pipe(t, dir, "held")
		// Its child holds its stdout until held is closed.
		helper(fmt.Sprintf("(exec <%[1]s/held; echo >%[1]s/started; cat) & wait\n", dir))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go func() {
			_, _ = started.Read(make([]byte, 1))
			cancel(errors.New("enough"))
		}()
		_, err := client(t, oci.ClientConfig{DockerConfig: helped}).Pull(ctx, ref)
		wantError(t, err, ref.String()+": enough")
		held.Close()
		path := filepath.Join(dir, "held")
		w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20)) // fails once its reader has been killed
		}
		if !errors.Is(err, syscall.ENXIO) && !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if w != nil {
			w.Close()
		}
	})
	t.Run("helper that leaves a process", func(t *testing.T) {
		pipe(t, dir, "left") // no process writes to it
		helper(fmt.Sprintf(`echo '{"Username":"me","Secret":"secret"}'; cat <%s/left & `+"\n", dir))
		if _, err := client(t, oci.ClientConfig{DockerConfig: helped}).Pull(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
	t.Run("helper that leaves a process outside its group", func(t *testing.T) {
		pipe(t, dir, "outside")
		pipe(t, dir, "hold") // closed at the end of the test
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		helper(fmt.Sprintf(outsideVar+`='exec <%[1]s/hold; echo >%[1]s/outside; exec cat' %[2]s & read started <%[1]s/outside; echo '{"Username":"me","Secret":"secret"}'`+"\n", dir, self))
		if _, err := client(t, oci.ClientConfig{DockerConfig: helped}).Pull(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
	t.Run("helper that fails", func(t *testing.T) {
		for script, want := range map[string]string{
			"echo the keychain is locked; exit 1": "docker-credential-demo: exit status 1: the keychain is locked",
			"echo no dbus >&2; exit 1":            "docker-credential-demo: exit status 1: no dbus",
			"exit 3":                              "docker-credential-demo: exit status 3",
			"echo a secret":                       "docker-credential-demo: the output is not a credential",
			"head -c 70000 /dev/zero":             "docker-credential-demo: output of more than 65536 bytes",
			"echo credentials not found in native keychain; exit 1": "unauthorized",
		} {
			helper(script + "\n")
			_, err := client(t, oci.ClientConfig{DockerConfig: helped}).Pull(t.Context(), ref)
			wantError(t, err, ref.String()+": ", want)
			if strings.Contains(err.Error(), "a secret") {
				t.Error(err)
			}
		}
	})
	t.Run("helper of registry comes first", func(t *testing.T) {
		path := config(fmt.Sprintf(`{"credsStore":"demo","credHelpers":{%q:"missing"}}`, h.Host))
		_, err := client(t, oci.ClientConfig{DockerConfig: path}).Pull(t.Context(), ref)
		wantError(t, err, "docker-credential-missing")
		path = config(`{"credsStore":"x/../../demo"}`)
		_, err = client(t, oci.ClientConfig{DockerConfig: path}).Pull(t.Context(), ref)
		wantError(t, err, "docker-credential-x/../../demo: not the name of a credential helper")
	})
	t.Run("broken config", func(t *testing.T) {
		path := config("{")
		_, err := oci.NewClient(oci.ClientConfig{DockerConfig: path})
		wantError(t, err, "docker's config "+path+": ")
	})
}

func TestTokenServer(t *testing.T) {
	h := registrytest.New(t)
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch user, password, _ := r.BasicAuth(); {
		case r.URL.Path == "/token" && user == "me" && password == "secret" && r.URL.Query().Get("service") == "hub":
			fmt.Fprintf(w, `{"token":"a token of %s"}`, r.URL.Query().Get("scope"))
		case r.URL.Path != "/token" && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer a token of repository:demo:pull"):
			return false
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="hub",scope="repository:demo:pull"`, h.Host))
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	})
	a := pack(t, "1.0.0", "signature")
	for password, want := range map[string]string{"bWU6c2VjcmV0": "", "bWU6d3Jvbmc=": "unauthorized"} {
		config := filepath.Join(t.TempDir(), "config.json")
		writeFile(t, config, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, h.Host, password))
		c := client(t, oci.ClientConfig{DockerConfig: config})
		err := c.Push(t.Context(), h.Ref(t, "demo:1"), a)
		if want != "" {
			wantError(t, err, want)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, a)
	}
}

// pipe makes a named pipe and opens both of its ends.
func pipe(t *testing.T, dir, name string) *os.File {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestDockerConfig(t *testing.T) {
	for _, tc := range []struct{ dockerConfig, home, want string }{
		{"", "", ""},
		{"", "/home/me", "/home/me/.docker/config.json"},
		{"/etc/docker", "/home/me", "/etc/docker/config.json"},
	} {
		got := oci.DockerConfig(func(name string) (string, bool) {
			value := map[string]string{"DOCKER_CONFIG": tc.dockerConfig, "HOME": tc.home}[name]
			return value, value != ""
		})
		if got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestPullErrors(t *testing.T) {
	h := registrytest.New(t)
	ref := h.Ref(t, "demo:1")
	c := client(t, oci.ClientConfig{})
	h.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done() // until the client gives up
		return true
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, fmt.Errorf("%s is slow", h.Host))
	defer cancel()
	_, err := c.Pull(ctx, ref)
	wantError(t, err, ref.String()+": "+h.Host+" is slow")
	wantError(t, c.Push(ctx, ref, pack(t, "1.0.0", "")), ref.String()+": "+h.Host+" is slow")

	h.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"errors":[{"code":"TEAPOT","message":"short\nand\u001b[2Jstout"}]}`, http.StatusTeapot)
		return true
	})
	_, err = c.Pull(t.Context(), ref)
	wantError(t, err, "the registry answered 418 teapot: short and [2Jstout")

	strict, err := oci.NewClient(oci.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	_, err = strict.Pull(t.Context(), ref)
	wantError(t, err, "the registry speaks plain HTTP, which must be allowed")

	away, err := plugin.ParseReference("127.0.0.1:1/demo:1") // nothing listens on port 1
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Pull(t.Context(), away)
	wantError(t, err, away.String()+": dial tcp ", "connection refused")
}

func TestPushWithoutTagIsError(t *testing.T) {
	c := client(t, oci.ClientConfig{})
	a := pack(t, "1.0.0", "")
	for _, rest := range []string{"demo@" + a.Digest, "demo:1@" + a.Digest} {
		ref, err := plugin.ParseReference("127.0.0.1:1/" + rest)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, c.Push(t.Context(), ref, a), "a push needs a :TAG, and no digest")
	}
}
