package admit

import (
	"context"
	"slices"
)

// RefreshConfig configures [Scanner.Refresh].
type RefreshConfig struct {
	All   bool // include plugins with a digest, which cannot change
	Again bool // include registries that were asked a short time ago
	// Each is called with the result for one plugin as soon as it is known. It is called
	// concurrently.
	Each func(Refreshed)
}

// Refreshed is the answer of a registry.
type Refreshed struct {
	Pulled
	Changed  bool // the answer differs from the previous one
	WasStale bool // the previous answer was [Stale]
}

// Refresh asks the registries of prober.yaml for its plugins. The next [Scanner.Scan] uses the
// answers. incomplete reports whether a registry gave no usable answer, so that Refresh should be
// called again soon. The error means that prober.yaml cannot be read.
func (s *Scanner) Refresh(ctx context.Context, cfg RefreshConfig) (incomplete bool, err error) {
	policy, err := New(s.cfg.Config)
	if err != nil {
		return false, err
	}
	from := s.cfg.Sources
	if cfg.Again {
		from.expire()
	}
	all := policy.remote()
	before := make(map[*Pulled]answer)
	for _, r := range all {
		before[r], _ = from.last(&r.entry)
	}
	if !cfg.All {
		all = slices.DeleteFunc(all, func(r *Pulled) bool { return r.hasDigest() && before[r].digest != "" && before[r].stale == nil })
	}
	policy.pullEach(ctx, from, all, func(r *Pulled) {
		last, _ := from.last(&r.entry)
		cfg.Each(Refreshed{Pulled: *r, Changed: !last.equal(before[r]), WasStale: before[r].stale != nil})
	})
	all = policy.remote()
	from.retain(all)
	for _, r := range all {
		last, _ := from.last(&r.entry)
		incomplete = incomplete || last.digest == "" || last.stale != nil
	}
	return incomplete, nil
}

// hasDigest reports whether prober.yaml pins the digest of r, so that its version cannot change.
func (r *Pulled) hasDigest() bool { return r.ref.Digest != "" || r.entry.Digest != "" }
