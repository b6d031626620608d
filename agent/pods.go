package agent

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods"
)

// reloadPods reloads the source of pods. If the source has no Reload, it only reads secrets again.
func (a *Agent) reloadPods(ctx context.Context, r *request) error {
	if a.source.Reload != nil {
		return a.source.Reload(ctx, pods.Reload{Cause: r.cause, All: len(r.waiters) > 0})
	}
	a.beginPods()
	err := a.refreshSecrets(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.noteReload((*progress).ofPods, false, err)
	return err
}

// beginPods implements [pods.Host].Begin.
func (a *Agent) beginPods() {
	a.update(func(p *progress) { p.pods.begin(&p.plugins) })
	a.handlers.BeginCheck()
	for _, file := range a.secretFiles.Begin() {
		a.log.Info("secret changed", "file", file)
	}
}

// checkPod implements [pods.Host].Check.
func (a *Agent) checkPod(ctx context.Context, pod *declared.Pod) []error {
	a.handlers.HoldChecked(pod)
	m, err := manager.New(manager.Config{Status: noPods{}, Handlers: a.within(ctx), ResolveSecret: a.secret})
	if err != nil {
		return []error{err}
	}
	defer m.Close()
	return []error{m.Apply(ctx, pod)}
}

// noPods is a status source without pods, so that workers make no attempts.
type noPods struct{}

// PodStatus implements [manager.StatusSource].
func (noPods) PodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// podsRefused implements [pods.Host].Refused.
func (a *Agent) podsRefused(ctx context.Context, r pods.Reload, err error) error {
	a.handlers.HoldRefused()
	secrets := a.refreshSecrets(ctx) // also if the manifests are invalid
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !r.All { // otherwise the check of all pods has reported errors of secrets
		err = errors.Join(err, secrets)
	}
	last := a.noteReload((*progress).ofPods, false, err)
	if r.Cause != retriedSecrets || errorText(err) != errorText(last.pods.err) {
		a.log.Error("manifests cannot be used; the last good state is kept", "cause", r.Cause, "error", err.Error())
	}
	return err
}

// podsApplied implements [pods.Host].Applied.
func (a *Agent) podsApplied(ctx context.Context, r pods.Reload, applied []*declared.Pod, err error) error {
	if a.running.CompareAndSwap(false, true) {
		a.notify(Ready)
	}
	a.restorePauses()
	a.secretFiles.Keep(applied)
	a.endpoints.Apply(applied)
	a.pushes.Applied()
	a.maintenance.Relabel(a.selectProbes("", a.maintenance.Differs))
	a.slos.Relabel(a.selectProbes("", a.slos.Differs))
	a.notifier.Relabel()
	err = errors.Join(err, a.refreshSecrets(ctx))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.handlers.HoldApplied(applied)
	a.checkSelectors()
	last := a.noteReload((*progress).ofPods, err == nil, asPartial(err))
	news := last.pods.at.IsZero() || errorText(err) != errorText(last.pods.err)
	switch {
	case err == nil && r.Routine && !news:
		a.log.Debug("pods applied", "cause", r.Cause, "pods", len(applied))
	case err == nil:
		a.log.Info("pods applied", "cause", r.Cause, "pods", len(applied))
	case news || r.Cause != retriedSecrets && !r.Routine: // otherwise it was logged already
		a.log.Error("pods were applied in part", "cause", r.Cause, "error", excerpt(err.Error()))
	}
	return err
}

// restorePauses applies the pauses of an earlier agent.
func (a *Agent) restorePauses() {
	a.pauses.Restore(func(n pauses.Name) (keys []manager.Key) {
		for _, info := range a.probesOf(n.Pod, exactly(n.Namespace, n.Pod, n.Container, n.Kind.String())) {
			keys = append(keys, keyOf(&info))
		}
		return keys
	})
}

// partialError is the error of an attempt that was applied in part.
type partialError struct{ error }

func (e partialError) Unwrap() error { return e.error }

// asPartial returns err as a [partialError]; nil if err is nil.
func asPartial(err error) error {
	if err == nil {
		return nil
	}
	return partialError{err}
}

// maxLogged limits the text of an error in the log, in bytes, as owners of pods may cause many errors.
const maxLogged = 8 << 10

// excerpt shortens a text for the log.
func excerpt(text string) string {
	return clip.Marked(text, maxLogged, fmt.Sprintf("… (%d bytes)", len(text)))
}

// refreshSecrets makes probes use the present secrets. If some are unreadable, for example for lack of file
// descriptors, it schedules a retry.
func (a *Agent) refreshSecrets(ctx context.Context) error {
	a.retry.Stop()
	err := a.manager.RefreshSecrets(ctx)
	if err != nil && ctx.Err() == nil {
		a.retry.Reset(a.cfg.retrySecrets)
	}
	return err
}

// secret resolves ${file:…} and ${env:…} in a probe's config, if prober.yaml allows it. Offline it returns
// the reference itself, as the secret may be on another host.
func (a *Agent) secret(source, name string) (string, error) {
	policy := a.handlers.SecretPolicy()
	switch {
	case a.offline == nil:
	case a.cfg.withoutPlugins():
		return "${" + source + ":" + name + "}", nil
	default:
		return "${" + source + ":" + name + "}", policy.Allows(source, name)
	}
	return policy.Resolve(a.cfg.LookupEnv, &a.secretFiles, source, name)
}
