package admit

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// memory caches the plugins that a [Scanner] has read, without code. The agent takes a snapshot for
// the first use of each plugin. Without the cache, each snapshot would read all plugins in use again. A
// nil memory caches nothing.
type memory struct {
	policy      *Policy            // the policy that admitted the plugins
	before, now map[string]reading // at the last scan and at this one, by path

	mu    sync.Mutex
	wrong []string // paths of plugins to read again, see [memory.forget]
}

// reading is the result of reading a plugin.
type reading struct {
	stamp   string           // stamp of its files before reading
	listed  *plugin.Manifest // manifest in the list; nil for a source of prober.yaml
	decided bool             // whether the fields below are set
	found   plugin.Found     // after Admit, without code
	verdict trust.Verdict
	err     error // error of Admit
}

// begin starts a scan. It clears the cache if the policy has changed.
func (m *memory) begin(p *Policy) {
	if m == nil {
		return
	}
	m.before, m.now = m.now, make(map[string]reading)
	m.mu.Lock()
	for _, path := range m.wrong {
		delete(m.before, path)
	}
	m.wrong = nil
	m.mu.Unlock()
	if was := m.policy; was == nil || !reflect.DeepEqual(was.file, p.file) || !reflect.DeepEqual(was.trust, p.trust) || !reflect.DeepEqual(was.lock, p.lock) {
		clear(m.before)
	}
	m.policy = p
}

// forget makes the next scan read the plugin at path, although its stamp may be the same. It may be
// called during a scan.
func (m *memory) forget(path string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, path)
}

// settled is the minimum age of a file's change. For a later change, the modification time may be too
// coarse to show the next one.
const settled = 2 * time.Second

// stampOf returns a string that changes whenever the files of the plugin at path, or the files others,
// change. It returns "" for a plugin that must be read each time: one that has just changed, or a check,
// which has no code.
func stampOf(path string, others ...string) string {
	if filepath.Base(path) == plugin.ManifestFile {
		return ""
	}
	var b strings.Builder
	for _, file := range slices.Concat(trust.Files(path), plugin.Files(path), others) {
		info, err := os.Stat(file)
		if err == nil && time.Since(info.ModTime()) < settled {
			return ""
		}
		filestamp.Write(&b, file, info, err)
	}
	return b.String()
}

// readListed is [plugin.Listed.Read], except that it returns a plugin without code if it is cached.
func (p *Policy) readListed(l plugin.Listed) (plugin.Found, error) {
	if p.memory == nil {
		return l.Read()
	}
	return p.memory.readOnce(l.Path(), reading{stamp: stampOf(l.Path()), listed: l.Manifest()}, l.Read)
}

// readSource is [plugin.Read], except that it returns a plugin without code if it is cached.
func (p *Policy) readSource(source string) (plugin.Found, error) {
	read := func() (plugin.Found, error) { return plugin.Read(source) }
	path, err := plugin.Locate(source)
	if p.memory == nil || err != nil {
		return read()
	}
	// The folder changes with the modules in it, and a plugin.yaml describes the only one.
	return p.memory.readOnce(path, reading{stamp: stampOf(path, filepath.Dir(path))}, read)
}

// readOnce reads the plugin at path, unless the cache has an equal reading with a decision of Admit.
func (m *memory) readOnce(path string, now reading, read func() (plugin.Found, error)) (plugin.Found, error) {
	if r, ok := m.before[path]; ok && r.decided && r.stamp == now.stamp && r.listed == now.listed {
		m.now[path] = r
		return r.found, nil
	}
	f, err := read()
	if err == nil && now.stamp != "" {
		m.now[f.Path] = now
	}
	return f, err
}

// admitOnce is [Policy.Admit], except that it returns the previous result for a cached plugin.
func (p *Policy) admitOnce(f *plugin.Found) (trust.Verdict, error) {
	if p.memory == nil {
		return p.Admit(f)
	}
	r, ok := p.memory.now[f.Path]
	if ok && r.decided && f.Module == nil {
		return r.verdict, r.err
	}
	verdict, err := p.Admit(f)
	if ok {
		r.decided, r.found, r.verdict, r.err = true, f.WithoutCode(), verdict, err
		p.memory.now[f.Path] = r
	}
	return verdict, err
}
