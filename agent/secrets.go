package agent

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// refreshSecrets lets probes use the secrets that there are now. Where some of them cannot, for
// the want of file descriptors or of time, say, it is tried again after a pause.
func (a *Agent) refreshSecrets(ctx context.Context) error {
	a.retry.Stop()
	err := a.manager.RefreshSecrets(ctx)
	if err != nil && ctx.Err() == nil {
		a.retry.Reset(a.cfg.retrySecrets)
	}
	return err
}

// secretFiles are the files that manifests refer to with ${file:…}. It is owned by the loop
// that follows manifests.
type secretFiles struct {
	stamps      map[string]string    // of each as it was before it was read last
	byPod, last map[*v1.Pod][]string // those of the pods, which are read-only, of this load and the last
	inUse       map[string]bool      // those of this load
}

// begin begins a load of manifests, in which the files are read again. It returns those
// that have changed since the last one.
func (s *secretFiles) begin() (changed []string) {
	stamps := make(map[string]string, len(s.stamps))
	for file, stamp := range s.stamps {
		stamps[file] = stampOf(file)
		if stamps[file] != stamp {
			changed = append(changed, file)
		}
	}
	s.stamps, s.inUse = stamps, make(map[string]bool)
	s.last, s.byPod = s.byPod, make(map[*v1.Pod][]string, len(s.byPod))
	slices.Sort(changed)
	return changed
}

// add notes the files of a pod, before they are read.
func (s *secretFiles) add(pod *v1.Pod) {
	files, known := s.last[pod]
	if !known {
		files = filesOf(pod)
	}
	s.byPod[pod] = files
	for _, file := range files {
		s.inUse[file] = true
		if _, known := s.stamps[file]; !known {
			s.stamps[file] = stampOf(file)
		}
	}
}

// keep ends a load that went well: no other files are followed from here on. After one that
// did not, those of the pods that run are followed too.
func (s *secretFiles) keep() {
	maps.DeleteFunc(s.stamps, func(file, _ string) bool { return !s.inUse[file] })
}

// known returns the stamp of all files as they were before they were read last.
func (s *secretFiles) known() string {
	return s.text(func(file string) string { return s.stamps[file] })
}

// now returns the stamp of all files as they are.
func (s *secretFiles) now() string { return s.text(stampOf) }

func (s *secretFiles) text(stamp func(file string) string) string {
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(s.stamps)) {
		b.WriteString(stamp(file))
	}
	return b.String()
}

// stampOf returns a text that changes when a file does, or what a link to it leads to.
func stampOf(file string) string {
	var b strings.Builder
	if info, err := os.Stat(file); err != nil {
		b.WriteString(file + " " + err.Error() + "\n")
	} else {
		stampInfo(&b, file, info)
	}
	return b.String()
}

// filesOf returns the files that the probes of pod refer to.
func filesOf(pod *v1.Pod) (files []string) {
	if pod.Annotations[manager.Annotation] == "" {
		return nil
	}
	configs, _ := manager.ProbesOf(pod) // those with errors are never prepared
	for _, c := range configs {
		for _, r := range c.SecretReferences() {
			if r.Source == "file" {
				files = append(files, r.Name)
			}
		}
	}
	return files
}
