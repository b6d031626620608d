package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local/internal/process"
	"github.com/daeace23/prober/pods/local/manifest"
)

// The reasons of events, as in the kubelet.
const (
	eventCreated   = "Created"
	eventStarted   = "Started"
	eventFailed    = "Failed"
	eventBackOff   = "BackOff"
	eventKilling   = "Killing"
	eventPostStart = "FailedPostStartHook"
	eventPreStop   = "FailedPreStopHook"
)

// start starts a container that does not run, if its back-off is over. It reports whether it has
// tried to start the container.
func (p *pod) start(c *container) bool {
	p.mu.Lock()
	if at := c.backOffUntil(time.Now()); !at.IsZero() {
		fresh := p.backOffLocked(c, at)
		p.mu.Unlock()
		if fresh {
			p.event(c, v1.EventTypeWarning, eventBackOff,
				fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.name, p.format()))
		}
		return false
	}
	p.beginLocked(c)
	if c.external {
		p.runningLocked(c, nil)
		p.mu.Unlock()
	} else {
		l, err := launchOf(p.spec, c.spec)
		c.dir, c.env, c.user = l.Dir, l.Env, l.User
		p.mu.Unlock()
		p.launch(c, l, err)
	}
	p.sync()
	return true
}

// backOffLocked makes c wait for its back-off until at. It reports whether this wait is new.
func (p *pod) backOffLocked(c *container, at time.Time) (fresh bool) {
	fresh = !c.retry.Equal(at)
	c.retry = at
	c.waiting = fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", c.back.pause, c.name, p.format())
	return fresh
}

// beginLocked prepares c for its next start.
func (p *pod) beginLocked(c *container) {
	if ended := c.endForBackoff(); !ended.IsZero() {
		c.back.next(time.Now(), ended, p.owner.cfg.RestartBackoff)
	}
	external := isExternal(c.spec)
	if c.id != "" && !(external && c.external) { // an external target is not restarted
		c.restarts++
		r := pods.Restart{
			Namespace: p.name.Namespace, Pod: p.name.Name, UID: p.uid, Container: c.name,
			Count: c.restarts, Cause: cmp.Or(string(c.cause), "exit"),
		}
		if c.end != nil {
			r.ExitCode, r.Signal = c.end.ExitCode, process.SignalName(c.end.Signal)
		}
		p.restarts = append(p.restarts, r)
		c.startedText = "Container started again: " + r.String()
	}
	if c.end != nil {
		c.last = c.end
	}
	c.end, c.again, c.cause, c.killed, c.preStopped = nil, false, causeNone, false, false
	c.retry, c.waiting = time.Time{}, ""
	c.external = external
	c.hash = p.hashOf(c.spec)
	p.setIDLocked(c, newID(c.external))
}

// setIDLocked sets the ID of c; "" removes it.
func (p *pod) setIDLocked(c *container, id string) {
	p.owner.ids.Delete(c.id)
	if c.id = id; id != "" {
		p.owner.ids.Store(id, p)
	}
}

func newID(external bool) string {
	scheme := "local"
	if external {
		scheme = "external"
	}
	return scheme + "://" + strings.ToLower(rand.Text())
}

// launch starts the process of c. If err is not nil, it records err as the failure of the start instead.
func (p *pod) launch(c *container, l process.Launch, err error) {
	output := &process.Output{W: p.owner.host.Output, Prefix: p.name.String() + "/" + c.name + ": "}
	p.event(c, v1.EventTypeNormal, eventCreated, "Container created")
	began := time.Now()
	var started *process.Process
	if err == nil {
		started, err = process.Start(l, output, p.owner.ending)
	}
	if err == nil {
		p.event(c, v1.EventTypeNormal, eventStarted, cmp.Or(c.startedText, "Container started"))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.runningLocked(c, started)
		return
	}
	if !errors.Is(err, process.ErrCanceled) {
		p.event(c, v1.EventTypeWarning, eventFailed, "Error: "+err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.started = began
	c.finish(process.Exit{Status: process.Status{Code: 128}, Message: err.Error(), At: time.Now()}, reasonStartError)
}

// runningLocked sets the state of c to running. proc is nil for an external target.
func (p *pod) runningLocked(c *container, proc *process.Process) {
	c.state, c.process, c.started, c.postStarted = running, proc, time.Now(), true
	if proc == nil {
		return
	}
	if h := c.spec.Lifecycle; h != nil && h.PostStart != nil {
		c.postStarted = false
		spec := c.spec
		p.jobs.Go(func() { p.postStart(c, proc, spec) })
	}
	p.jobs.Go(func() {
		<-proc.Exited()
		p.mu.Lock()
		if c.process == proc {
			c.finish(proc.Exit(), "")
		}
		p.mu.Unlock()
		p.sync()
	})
}

// postStart runs the postStart hook of a container. The container counts as running once the
// hook has ended, and is killed when the hook fails.
func (p *pod) postStart(c *container, proc *process.Process, spec *v1.Container) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-proc.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := p.hook(ctx, c, spec, spec.Lifecycle.PostStart)
	if err != nil && ctx.Err() == nil {
		p.event(c, v1.EventTypeWarning, eventPostStart, "PostStartHook failed")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.process != proc || !c.running() {
		return
	}
	c.postStarted = true
	if err != nil && c.stopping == nil {
		p.stopLocked(c, killRequest{message: eventPostStart}, nil)
	}
	p.sync()
}

// killLocked kills a container and records whether to start it again. An external target is not
// killed: it gets a new ID, so that its probes start again.
func (p *pod) killLocked(c *container, k killRequest) {
	if c.external && isExternal(c.spec) {
		p.renewLocked(c)
		return
	}
	c.again, c.killed, c.cause = k.restart, k.restart, k.cause
	p.stopLocked(c, k, nil)
}

// renewLocked gives an external target a new ID.
func (p *pod) renewLocked(c *container) {
	p.beginLocked(c)
	p.runningLocked(c, nil)
	p.sync()
}

// reportRestarts calls Restarted for the restarts since the last call. It is called after the status
// of the pod shows them.
func (p *pod) reportRestarts() {
	p.mu.Lock()
	restarts := p.restarts
	p.restarts = nil
	p.mu.Unlock()
	for _, r := range restarts {
		p.owner.host.Restarted(r)
	}
}

// format returns the name of the pod in the format of the kubelet.
func (p *pod) format() string {
	return fmt.Sprintf("%s_%s(%s)", p.name.Name, p.name.Namespace, p.uid)
}

// defaultPath is the PATH of a container when neither the container nor the agent sets one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launchOf returns the working directory, the environment, the user and the command line of a
// container. The environment has the agent's PATH, the user's HOME, HOSTNAME, and the variables of
// the container. It has no other variables of the agent. An error means that the container cannot run as
// its user: users of the host may have changed since the manifest was read.
func launchOf(pod *v1.Pod, c *v1.Container) (l process.Launch, err error) {
	home := os.Getenv("HOME")
	id, err := manifest.IdentityOf(pod, c)
	if id != nil {
		home = id.Home
		l.User = &procgroup.User{ID: id.User, Group: id.Group, Groups: id.Groups}
	}
	l.Umask = manifest.UmaskOf(pod, c.Name)
	path := os.Getenv("PATH")
	if path == "" {
		path = defaultPath
	}
	values := []v1.EnvVar{{Name: "PATH", Value: path}, {Name: "HOSTNAME", Value: pod.Name}}
	if home != "" {
		values = append(values, v1.EnvVar{Name: "HOME", Value: home})
	}
	var own []v1.EnvVar
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			continue // unsupported, and accepted by Source.AllowUnsupported
		}
		e.Value = declared.ExpandCommand([]string{e.Value}, own)[0]
		own = setEnv(own, e)
		values = setEnv(values, e)
	}
	for _, e := range values {
		l.Env = append(l.Env, e.Name+"="+e.Value)
	}
	l.Dir = c.WorkingDir
	l.Args = declared.ExpandCommand(slices.Concat(c.Command, c.Args), own)
	return l, err
}

// setEnv sets a variable in env, and returns env.
func setEnv(env []v1.EnvVar, e v1.EnvVar) []v1.EnvVar {
	if i := slices.IndexFunc(env, func(o v1.EnvVar) bool { return o.Name == e.Name }); i >= 0 {
		env[i] = e
		return env
	}
	return append(env, e)
}
