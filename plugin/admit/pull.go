package admit

import (
	"context"
	"errors"
	"sync"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// maxPulls is the maximum number of concurrent pulls.
const maxPulls = 4

// Pulled is the result for one plugin of prober.yaml that is in a registry.
type Pulled struct {
	Name, Source string
	Shadow       bool
	Found        plugin.Found
	Err          error // error of the pull
	Stale        error // error for which it is the last good version; nil if it is the registry's current one
	Unkept       error // error for which it is not cached; nil if it is
	// Newest is the newest version the tag of Source ever had, if it is newer than this one, because
	// the tag was moved back. Else it is "".
	Newest string

	entry config.Plugin
	ref   plugin.Reference
}

// Pull fetches the plugins of prober.yaml that are in registries, for [Policy.Find] and
// [Policy.Shadows]. A refused version does not replace the last good one. Pull waits at most
// [oci.DefaultPatience] for all of them.
func (p *Policy) Pull(ctx context.Context, from *Sources) []Pulled {
	all := p.remote()
	p.pullEach(ctx, from, all, func(*Pulled) {})
	return p.setPulled(all)
}

// recall is [Policy.Pull] with the last answers of the registries, without requests.
func (p *Policy) recall(from *Sources) {
	all := p.remote()
	for _, r := range all {
		r.set(from.recall(&r.entry, p.wanted(&r.entry, r.ref)))
	}
	p.setPulled(all)
}

// remote returns the plugins of prober.yaml that are in registries.
func (p *Policy) remote() (all []*Pulled) {
	for _, e := range p.file.Plugins {
		if ref, ok := e.Reference(); ok && (e.Shadow || p.cfg.Dev[e.Name] == "") {
			all = append(all, &Pulled{Name: e.Name, Source: e.Source, Shadow: e.Shadow, entry: e, ref: ref})
		}
	}
	return all
}

// pullEach pulls all. It calls each with every result as soon as it is known.
func (p *Policy) pullEach(ctx context.Context, from *Sources, all []*Pulled, each func(*Pulled)) {
	ctx, cancel := context.WithTimeoutCause(ctx, oci.DefaultPatience, errors.New("the registries took too long"))
	defer cancel()
	var pulling sync.WaitGroup
	slots := make(chan struct{}, maxPulls)
	for _, r := range all {
		pulling.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r.set(from.resolve(ctx, &r.entry, p.wanted(&r.entry, r.ref)))
			each(r)
		})
	}
	pulling.Wait()
}

func (p *Policy) setPulled(all []*Pulled) []Pulled {
	p.pulled = make([]Pulled, len(all))
	for i, r := range all {
		p.pulled[i] = *r
	}
	return p.pulled
}

// set sets the result.
func (r *Pulled) set(k *oci.Kept, ref plugin.Reference, err error) {
	if err != nil {
		r.Err = err
		return
	}
	r.Found, r.Stale, r.Unkept, r.Newest = k.Artifact.Found(ref), k.Stale, k.Unkept, k.Newest
}

// wanted describes the artifacts that are acceptable for the entry e.
func (p *Policy) wanted(e *config.Plugin, ref plugin.Reference) oci.Wanted {
	return oci.Wanted{Ref: ref, Digest: e.Digest, Accept: func(artifact *oci.Artifact) error {
		f := artifact.Found(ref)
		if f.Manifest.Name != e.Name {
			return otherName(e, f.Manifest.Name)
		}
		if err := pinned(&f, e); err != nil {
			return err
		}
		verdict, err := p.checkTrust(&f)
		if err != nil {
			return err
		}
		return p.covered(&f, e, verdict)
	}}
}
