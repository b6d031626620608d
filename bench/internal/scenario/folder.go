package scenario

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/target"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/plugin"
)

const (
	folderPlugins  = 1000
	folderPrograms = 10 // one plugin in ten is a program
	folderUsed     = 20
	moduleSize     = 3 << 20 // size of unused plugins, whose files are sparse
	programSize    = 19 << 20
)

// folder measures a folder of unused plugins, and the use of some of them.
func folder() Scenario {
	unused, inUse := folderParams(folderPlugins, 0), folderParams(folderPlugins, folderUsed)
	more := func(text, figure string, params []record.Param, most float64) Goal {
		return Goal{Text: text, Figure: figure, Subject: proberRun, Params: params, AtMost: most}
	}
	return Scenario{
		Name: "folder", Title: "A folder of 1,000 plugins", Rounds: 3, Seconds: 30,
		Text: "`prober run` with 100 HTTP probes of external targets at 10 s, without and with a folder of 1,000 plugins: 900 modules of 3 MB and 100 programs of 19 MB, sparse files if unused. " +
			"The start ends 2 s after the agent is ready; rest follows. " +
			"The last row has 20 plugins in use, probed at 10 s: cached copies of examples/plugins/redis without its manifest.",
		Columns: []Column{
			{"start-cpu-s", "CPU s at the start"}, {"more-cpu-s", "s more"}, {"cpu-percent", "CPU % at rest"}, {"more-percent", "% more"},
			{"rss-mb", "MB in all"}, {"more-mb", "MB more"}, {"total-mb", "MiB of totalMemory"},
		},
		Goals: []Goal{
			more("unused plugins: ≤ 0.5 s more CPU at the start", "more-cpu-s", unused, 0.5),
			more("unused plugins: ≤ 20 MB more", "more-mb", unused, 20),
			more("unused plugins: ≤ 0.5 % of a core more at rest", "more-percent", unused, 0.5),
			more("20 in use: ≤ 200 MB more", "more-mb", inUse, 200),
			more("20 in use: ≤ 256 MiB of totalMemory", "total-mb", inUse, 256),
		},
		Run: func(ctx context.Context, e *Env) (err error) {
			dir, err := os.MkdirTemp("", "prober-folder")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			n, used := e.size(folderPlugins), min(folderUsed, e.size(folderPlugins))
			if err := e.fillFolder(ctx, filepath.Join(dir, "plugins"), n, used); err != nil {
				return err
			}
			e.Logf("compiling %d plugins", used)
			if _, err := e.withFolder(ctx, dir, n, used, 0); err != nil {
				return err
			}
			for round := range e.Rounds {
				if err := e.folderRound(ctx, dir, round, n, used); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func folderParams(plugins, used int) []record.Param {
	return append(param("plugins", plugins), param("in use", used)...)
}

// folderRound measures an agent without plugins, one with a folder of n, and one that uses some.
func (e *Env) folderRound(ctx context.Context, dir string, round, n, used int) error {
	var base map[string]record.Number
	for _, load := range [][2]int{{0, 0}, {n, 0}, {n, used}} {
		e.Logf("%s: %d plugins, %d in use, round %d", proberRun, load[0], load[1], round+1)
		figures, err := e.withFolder(ctx, dir, load[0], load[1], time.Duration(e.Seconds)*time.Second)
		if err != nil {
			return err
		}
		if base == nil {
			base = figures
		} else {
			for figure, of := range map[string]string{"more-cpu-s": "start-cpu-s", "more-percent": "cpu-percent", "more-mb": "rss-mb"} {
				figures[figure] = figures[of] - base[of]
			}
		}
		e.emit(proberRun, round+1, folderParams(load[0], load[1]), figures, nil)
	}
	return nil
}

// withFolder measures an agent with a folder of n plugins in dir. Some of them are used.
func (e *Env) withFolder(ctx context.Context, dir string, n, used int, rest time.Duration) (_ map[string]record.Number, err error) {
	server, err := e.target(ctx)
	if err != nil {
		return nil, err
	}
	pods := externalPods(server, e.size(100), 1, 10)
	for i := range used {
		pods.Items = append(pods.Items, podOf(nameOf(i), server.HTTP))
	}
	var args []string
	if n > 0 {
		args = []string{"--plugins", filepath.Join(dir, "plugins")}
	}
	a, err := e.startAgent(ctx, pods, filepath.Join(dir, "cache"), args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	pid := a.cmd.Process.Pid
	start, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, rest); err != nil {
		return nil, err
	}
	end, err := measure.ProcessCPU(pid)
	if err != nil {
		return nil, err
	}
	resident, err := measure.Resident(pid)
	if err != nil {
		return nil, err
	}
	total, err := a.usedMemory(ctx, used)
	return map[string]record.Number{
		"start-cpu-s": record.Number(start.Seconds()), "cpu-percent": record.Number(100 * (end - start).Seconds() / max(rest.Seconds(), 1)),
		"rss-mb": record.Number(float64(resident) / (1 << 20)), "total-mb": record.Number(total / (1 << 20)),
	}, err
}

// usedMemory returns prober_plugin_memory_bytes of an agent that must run some plugins.
func (a *agent) usedMemory(ctx context.Context, plugins int) (bytes float64, err error) {
	var list struct {
		Items []struct{ Name, State, Error string }
	}
	err = a.get(ctx, "/api/v1/plugins", func(body *bufio.Reader) error { return json.NewDecoder(body).Decode(&list) })
	if err != nil {
		return 0, err
	}
	running := 0
	for _, p := range list.Items {
		if p.Error != "" {
			return 0, fmt.Errorf("plugin %s: %s", p.Name, p.Error)
		}
		if p.State == "running" {
			running++
		}
	}
	if running != plugins {
		return 0, fmt.Errorf("%d plugins run, must be %d", running, plugins)
	}
	err = a.get(ctx, "/metrics", func(body *bufio.Reader) (err error) {
		for lines := bufio.NewScanner(body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), "prober_plugin_memory_bytes "); ok {
				bytes, err = strconv.ParseFloat(value, 64)
				return err
			}
		}
		return errors.New("/metrics has no prober_plugin_memory_bytes")
	})
	return bytes, err
}

// nameOf returns the name of the i-th plugin.
func nameOf(i int) string { return fmt.Sprintf("p%04d", i) }

// podOf returns a pod with a probe of a plugin with a period of 10 s. Its target is not a Redis server.
func podOf(name string, port int) v1.Pod {
	pod := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	pod.Name = "with-" + name
	pod.Annotations = map[string]string{declared.Annotation: fmt.Sprintf("app: {readiness: {plugin: {name: %s, target: {host: %s, port: %d}}}}", name, target.Address(0), port)}
	pod.Spec.Containers = []v1.Container{{Name: "app"}}
	return pod
}

// fillFolder writes n plugins. Only the first ones work.
func (e *Env) fillFolder(ctx context.Context, dir string, n, used int) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	e.Logf("writing %d plugins", n)
	guest := filepath.Join(filepath.Dir(dir), "guest.wasm")
	if err := build(ctx, "env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-C", "examples/plugins/redis", "-trimpath", "-buildmode=c-shared", "-o", guest); err != nil {
		return err
	}
	code, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	for i := range n {
		path, manifest := filepath.Join(dir, nameOf(i)+".wasm"), "apiVersion: prober.dev/v1\nname: "+nameOf(i)+"\nversion: 1.0.0\n"
		if i < used {
			manifest += "requests: [{capability: net, allow: [target], reason: to ask the server that is probed}]\n"
		}
		switch {
		case i < used:
			err = writeModule(path, code, manifest, 0)
		case i%folderPrograms == 0:
			path = filepath.Join(dir, plugin.ProcessPrefix+nameOf(i))
			err = errors.Join(os.WriteFile(path+".yaml", []byte(manifest), 0o600), writeSparse(path, []byte("#!/bin/sh\nexit 1 # "+nameOf(i)+"\n"), programSize))
		default:
			err = writeModule(path, []byte("\x00asm\x01\x00\x00\x00"), manifest, moduleSize)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeModule writes a module with an embedded manifest, and with a section of size bytes that is a hole in
// the file.
func writeModule(path string, code []byte, manifest string, size int) error {
	module, err := plugin.Embed(code, []byte(manifest))
	if err != nil || size == 0 {
		return errors.Join(err, os.WriteFile(path, module, 0o600))
	}
	module = append(module, 0)
	module = binary.AppendUvarint(module, uint64(size))
	return writeSparse(path, append(module, "\x04hole"...), len(module)+size)
}

// writeSparse writes a file of size bytes whose end is a hole.
func writeSparse(path string, begin []byte, size int) error {
	return errors.Join(os.WriteFile(path, begin, 0o700), os.Truncate(path, int64(size)))
}
