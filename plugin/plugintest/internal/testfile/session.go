package testfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/probe"
)

const sessionKind = "PluginSession"

// parseSession reads a session as a case.
func parseSession(path string, data []byte) (*Case, error) {
	r := field.NewReader(path)
	r.NoCommands = true // a session is data, which may come from others
	doc := r.Parse(data, maxFile)
	if doc == nil {
		return nil, r.Err()
	}
	c := newCase()
	c.Session = path
	var recorded string
	r.Mapping(doc, "", yamlpos.Fields{
		"apiVersion": r.Constant(plugin.APIVersion),
		"kind":       r.Constant(sessionKind),
		"recorded":   r.String(&recorded),
		"timeout":    r.PositiveDuration(&c.Timeout),
		"grants":     readGrants(r, &c.Grants),
		"seed":       readSeed(r, c),
		"time":       readTime(r, c),
		"request":    func(n *yamlpos.Node, path string) { decodeRequest(r, n, path, c) },
		"host":       func(n *yamlpos.Node, path string) { decodeHost(r, n, path, c) },
		"want":       func(n *yamlpos.Node, path string) { decodeWant(r, n, path, &c.Want) },
	}, "apiVersion", "kind", "request", "host")
	c.Want.result, c.Want.message = place{}, place{} // these are places in the session, not in the test file
	return c, r.Err()
}

// decodeReplay reads the session that a case names into the case, and reports whether it could.
func decodeReplay(r *field.Reader, n *yamlpos.Node, path string, c *Case) bool {
	name, ok := r.Text(n, path)
	if !ok {
		return false
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.File), name)
	}
	data, err := regular.Read(name, maxFile)
	if err != nil {
		r.Errorf(n, path, "%w", err)
		return false
	}
	session, err := parseSession(name, data)
	if err != nil {
		r.AddOther(err)
		return false
	}
	session.Name, session.Line = c.Name, c.Line
	if session.Grants == nil {
		session.Grants = c.Grants
	}
	*c = *session
	return true
}

// Recorded returns a recorded attempt as a case. seen need not have a Target.
func Recorded(req probe.Request, config []byte, grants []plugin.Grant, seen capture.Attempt, conns []*capture.Summary) *Case {
	c := newCase()
	if req.Spec.Timeout > 0 {
		c.Timeout = req.Spec.Timeout
	}
	c.Kind, c.Attempt, c.LastResult = req.Kind, max(1, req.Attempt), req.LastResult
	c.Target, c.PodIP, c.Config, c.Grants, c.Names = req.Target, req.PodIP, config, grants, seen.Names
	if req.Pod != nil {
		c.Pod = *req.Pod
	}
	if req.Container != nil {
		c.Container = *req.Container
	}
	c.Seed, c.Time = seen.Seed, seen.Time
	seen.Target = c.Target
	c.Peers = record(&seen, conns)
	return c
}

type sessionDoc struct {
	APIVersion string        `yaml:"apiVersion"`
	Kind       string        `yaml:"kind"`
	Recorded   string        `yaml:"recorded"`
	Timeout    time.Duration `yaml:"timeout"`
	Seed       *uint64       `yaml:"seed,omitempty"`
	Time       string        `yaml:"time,omitempty"`
	Grants     field.List    `yaml:"grants,omitempty"`
	Request    requestDoc    `yaml:"request"`
	Host       *yamlpos.Node `yaml:"host"`
	Want       *yamlpos.Node `yaml:"want"`
}

type requestDoc struct {
	Kind       string       `yaml:"kind,omitempty"`
	Attempt    int          `yaml:"attempt,omitempty"`
	LastResult string       `yaml:"lastResult,omitempty"`
	Target     targetDoc    `yaml:"target,omitempty,flow"`
	PodIP      field.Text   `yaml:"podIP,omitempty"`
	Pod        podDoc       `yaml:"pod,omitempty,flow"`
	Container  containerDoc `yaml:"container,omitempty,flow"`
	Config     field.JSON   `yaml:"config,omitempty"`
}

type targetDoc struct {
	Host field.Text `yaml:"host,omitempty"`
	Port int        `yaml:"port,omitempty"`
	Unix field.Text `yaml:"unix,omitempty"`
}

type podDoc struct {
	Namespace field.Text            `yaml:"namespace,omitempty"`
	Name      field.Text            `yaml:"name,omitempty"`
	UID       field.Text            `yaml:"uid,omitempty"`
	Labels    map[string]field.Text `yaml:"labels,omitempty"`
}

type containerDoc struct {
	Name field.Text `yaml:"name,omitempty"`
}

func requestDocOf(c *Case) requestDoc {
	doc := requestDoc{
		Target:    targetDoc{field.Text(c.Target.Host), c.Target.Port, field.Text(c.Target.Unix)},
		PodIP:     field.Text(c.PodIP),
		Pod:       podDoc{field.Text(c.Pod.Namespace), field.Text(c.Pod.Name), field.Text(c.Pod.UID), make(map[string]field.Text)},
		Container: containerDoc{field.Text(c.Container.Name)},
	}
	for name, value := range c.Pod.Labels {
		doc.Pod.Labels[name] = field.Text(value)
	}
	if c.Kind != probe.Liveness {
		doc.Kind = c.Kind.String()
	}
	if c.Attempt > 1 {
		doc.Attempt = c.Attempt
	}
	if c.LastResult != probe.Unknown {
		doc.LastResult = c.LastResult.String()
	}
	if string(c.ConfigJSON()) != "{}" {
		doc.Config = c.Config
	}
	return doc
}

// encodeSession returns the session file of a recorded case. message is the plugin's message.
func encodeSession(c *Case, at time.Time, message string) ([]byte, error) {
	doc := sessionDoc{
		APIVersion: plugin.APIVersion, Kind: sessionKind, Recorded: at.UTC().Format(time.RFC3339), Timeout: c.Timeout, Request: requestDocOf(c),
	}
	if doc.Seed = c.Seed; !c.Time.IsZero() {
		doc.Time = c.Time.Format(time.RFC3339Nano)
	}
	for _, g := range c.Grants {
		doc.Grants = append(doc.Grants, g.String())
	}
	var err error
	if doc.Host, err = hostNode(c); err != nil {
		return nil, err
	}
	if doc.Want, err = field.Flow(struct{ Result field.Text }{field.Text(c.Want.Result)}); err != nil {
		return nil, err
	}
	doc.Want.LineComment = strings.Join(strings.FieldsFunc(message, unicode.IsControl), " ")
	var b bytes.Buffer
	b.WriteString("# What a plugin saw. A case replays it: see replay in its test file.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// WriteSession writes a recorded case to a file.
func WriteSession(path string, c *Case, at time.Time, message string) error {
	data, err := encodeSession(c, at, message)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := parseSession(path, data); err != nil {
		return fmt.Errorf("the recorded session cannot be read: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
