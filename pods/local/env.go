package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// defaultPath is the PATH of a container when neither it nor the agent has one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// surroundings returns what a container of pod is to run, or runs, as: a directory,
// an environment and a command line. The environment holds PATH and HOME of the
// agent, HOSTNAME, and what the container says; nothing else of the agent's.
func surroundings(pod *v1.Pod, c *v1.Container) (l launch) {
	path := os.Getenv("PATH")
	if path == "" {
		path = defaultPath
	}
	values := []v1.EnvVar{{Name: "PATH", Value: path}, {Name: "HOSTNAME", Value: pod.Name}}
	if home := os.Getenv("HOME"); home != "" {
		values = append(values, v1.EnvVar{Name: "HOME", Value: home})
	}
	var own []v1.EnvVar
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			continue // unsupported, and let through as such
		}
		e.Value = manager.ExpandCommand([]string{e.Value}, own)[0]
		own = setEnv(own, e)
		values = setEnv(values, e)
	}
	for _, e := range values {
		l.Env = append(l.Env, e.Name+"="+e.Value)
	}
	l.Dir = c.WorkingDir
	l.Args = manager.ExpandCommand(slices.Concat(c.Command, c.Args), own)
	return l
}

func setEnv(env []v1.EnvVar, e v1.EnvVar) []v1.EnvVar {
	if i := slices.IndexFunc(env, func(o v1.EnvVar) bool { return o.Name == e.Name }); i >= 0 {
		env[i] = e
		return env
	}
	return append(env, e)
}

// lookPath finds the program of l: by the PATH of its environment, or, for a name
// with a slash, relative to its directory.
func lookPath(l launch) (string, error) {
	name := l.Args[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.Dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		return path, executable(path)
	}
	for _, e := range slices.Backward(l.Env) {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if path := filepath.Join(dir, name); filepath.IsAbs(path) && executable(path) == nil {
				return path, nil
			}
		}
		break
	}
	return "", fmt.Errorf("%q: executable file not found in $PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%q: no such file", path)
		}
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%q: not an executable file", path)
	}
	return nil
}
