package local

import (
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/local/internal/process"
)

// defaultPath is the PATH of a container when neither the container nor the agent sets one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launchOf returns the working directory, the environment and the command line of a container. The
// environment has PATH and HOME of the agent, HOSTNAME, and the variables of the container. It has
// no other variables of the agent.
func launchOf(pod *v1.Pod, c *v1.Container) (l process.Launch) {
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
			continue // unsupported, and accepted by Source.AllowUnsupported
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

// setEnv sets a variable in env, and returns env.
func setEnv(env []v1.EnvVar, e v1.EnvVar) []v1.EnvVar {
	if i := slices.IndexFunc(env, func(o v1.EnvVar) bool { return o.Name == e.Name }); i >= 0 {
		env[i] = e
		return env
	}
	return append(env, e)
}
