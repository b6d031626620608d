package admit

import (
	"os"
	"reflect"
	"strings"
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
}

// reading is a plugin that was read.
type reading struct {
	stamp   string           // of its files, from before they were read
	listed  *plugin.Manifest // by which it was listed
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
	if was := m.policy; was == nil || !reflect.DeepEqual(was.file, p.file) || !reflect.DeepEqual(was.trust, p.trust) || !reflect.DeepEqual(was.lock, p.lock) {
		clear(m.before)
	}
	m.policy = p
}

// settled is how old the change of a file must be to be told from the next one by its time.
const settled = 2 * time.Second

// stampOf returns a string that changes with the files of l. It is "" for a plugin that is read each
// time: one that was changed just now, or a check, which has no code.
func stampOf(l plugin.Listed) string {
	if l.Manifest().Runtime == plugin.Nagios {
		return ""
	}
	var b strings.Builder
	for _, file := range append(trust.Files(l.Path()), l.Files()...) {
		info, err := os.Stat(file)
		if err == nil && time.Since(info.ModTime()) < settled {
			return ""
		}
		filestamp.Write(&b, file, info, err)
	}
	return b.String()
}

// readOnce is [plugin.Listed.Read] that returns a plugin without code if the memory has it.
func (p *Policy) readOnce(l plugin.Listed) (plugin.Found, error) {
	if p.memory == nil {
		return l.Read()
	}
	stamp := stampOf(l)
	if r, ok := p.memory.before[l.Path()]; ok && r.stamp == stamp && r.listed == l.Manifest() {
		p.memory.now[l.Path()] = r
		return r.found, nil
	}
	f, err := l.Read()
	if err == nil && stamp != "" {
		p.memory.now[f.Path] = reading{stamp: stamp, listed: l.Manifest()}
	}
	return f, err
}

// admitOnce is [Policy.Admit] that returns the result of the last time for a plugin that the memory has.
func (p *Policy) admitOnce(f *plugin.Found) (trust.Verdict, error) {
	if p.memory == nil {
		return p.Admit(f)
	}
	r, ok := p.memory.now[f.Path]
	if ok && f.Module == nil {
		return r.verdict, r.err
	}
	verdict, err := p.Admit(f)
	if ok {
		r.found, r.verdict, r.err = f.WithoutCode(), verdict, err
		p.memory.now[f.Path] = r
	}
	return verdict, err
}
