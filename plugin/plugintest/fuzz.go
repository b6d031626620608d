package plugintest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// FuzzConfig configures [Fuzz].
type FuzzConfig struct {
	Config

	// Seed determines the variants and their order.
	Seed uint64

	// Time is how long Fuzz runs. 0 means until its context ends.
	Time time.Duration

	// Folder is the folder for the files of findings. Their path of the plugin is relative to it.
	Folder string

	// Found is called for each fault, once for each cause.
	Found func(Finding) error

	// Progress is called about once a second with the number of variants so far.
	Progress func(variants, findings int)
}

// Finding is a fault that [Fuzz] has found.
type Finding struct {
	Reason string
	File   string // contents of a test file with the case that reproduces the fault
}

// Fuzz runs random variants of the passing cases of a file, in which peers break the protocol, until its time is
// over, ctx ends or it has [MaxFindings]. It returns the number of variants. It returns an error if no case can be varied.
func Fuzz(ctx context.Context, f *File, cfg FuzzConfig) (variants int, err error) {
	module := cmp.Or(cfg.Plugin, f.Plugin)
	if isProgram(module) {
		return 0, fmt.Errorf("%s: fuzz needs a module, and %s is a program", f.Path, module)
	}
	found, err := plugin.Read(module)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.Path, err)
	}
	h, err := newHunter(newGuestRun(cfg.Config, found.Module, found.Manifest, f))
	if err != nil {
		return 0, err
	}
	defer h.close()
	path, err := relative(cfg.Folder, module)
	if err != nil {
		return 0, err
	}
	h.position, h.encode = 0, func(item *yamlpos.Node) (string, error) { return wholeFile(h.editor, path, item) }
	subjects, err := h.subjects(ctx)
	if err != nil {
		return 0, ended(ctx, err)
	}
	if len(subjects) == 0 {
		return 0, errors.New(f.Path + ": no case that passes has peers that can be varied")
	}
	return h.fuzz(ctx, subjects, cfg)
}

// ended returns nil in place of an error that the end of ctx causes.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// subjects returns the cases that pass and can be varied.
func (h *hunter) subjects(ctx context.Context) (all []*subject, err error) {
	for i := range h.file.Cases {
		s, err := h.subject(ctx, i)
		if err != nil {
			return nil, err
		}
		if s == nil || len(s.plan.Variants) == 0 {
			continue
		}
		if err := s.findNeeds(ctx); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (h *hunter) fuzz(ctx context.Context, subjects []*subject, cfg FuzzConfig) (variants int, err error) {
	r := rand.New(rand.NewPCG(cfg.Seed, 0))
	start := time.Now()
	shown := start
	for order := 0; ctx.Err() == nil && !h.full() && (cfg.Time == 0 || time.Since(start) < cfg.Time); order++ {
		s := subjects[r.IntN(len(subjects))]
		v, _ := s.plan.Random(r)
		ok, found, err := s.check(ctx, &v, order)
		if err != nil {
			return variants, ended(ctx, err)
		}
		if ok {
			variants++
		}
		if found != nil {
			if err := cfg.Found(Finding{found.text, found.item}); err != nil {
				return variants, err
			}
		}
		if cfg.Progress != nil && time.Since(shown) >= time.Second {
			shown = time.Now()
			cfg.Progress(variants, len(h.found))
		}
	}
	return variants, nil
}

// wholeFile returns a test file with one case.
func wholeFile(e *testfile.Editor, pluginPath string, item *yamlpos.Node) (string, error) {
	doc := e.File(item)
	testfile.SetField(doc, "plugin", text(pluginPath))
	return encodedNode(doc)
}

// relative returns the path of a file as seen from a folder.
func relative(folder, path string) (string, error) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}
