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

// memory is what a [Scanner] has read of plugin folders, without code. The agent takes a snapshot for
// each plugin that comes into use: without it, the twentieth would read nineteen others again. A nil
// memory remembers nothing.
type memory struct {
	policy      *Policy            // by which plugins were admitted
	before, now map[string]reading // at the last scan and at this one, by path

	mu    sync.Mutex
	wrong []string // paths of plugins that were found to differ, see [memory.forget]
}

// reading is a plugin that was read.
type reading struct {
	stamp   string           // of its files, from before they were read
	listed  *plugin.Manifest // by which it was listed; nil for a source of prober.yaml
	decided bool             // the rest is set
	found   plugin.Found     // as Admit left it, without code
	verdict trust.Verdict
	err     error // why it was not admitted
}

// begin begins a scan. Another policy may admit others.
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

// settled is how old the change of a file must be to be told from the next one by its time.
const settled = 2 * time.Second

// stampOf returns a string that changes with the files of the plugin at path, and with others that it
// depends on. It is "" for a plugin that is read each time: one that was changed just now, or a check,
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

// readListed is [plugin.Listed.Read] that returns a plugin without code if the memory has it.
func (p *Policy) readListed(l plugin.Listed) (plugin.Found, error) {
	if p.memory == nil {
		return l.Read()
	}
	return p.memory.readOnce(l.Path(), reading{stamp: stampOf(l.Path()), listed: l.Manifest()}, l.Read)
}

// readSource is [plugin.Read] that returns a plugin without code if the memory has it.
func (p *Policy) readSource(source string) (plugin.Found, error) {
	read := func() (plugin.Found, error) { return plugin.Read(source) }
	path, err := plugin.Locate(source)
	if p.memory == nil || err != nil {
		return read()
	}
	// The folder changes with the modules in it, and a plugin.yaml describes the only one.
	return p.memory.readOnce(path, reading{stamp: stampOf(path, filepath.Dir(path))}, read)
}

// readOnce reads the plugin at path unless the last reading was the same, and Admit has decided on it.
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

// admitOnce is [Policy.Admit] that returns the result of the last time for a plugin that the memory has.
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
