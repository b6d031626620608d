package measure

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine describes the machine on which a record was made.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Commit is the commit of the working folder. It ends in -dirty if files differ from the commit, except
	// files that a measurement writes.
	Commit string `json:"commit"`
}

// ThisMachine describes this machine. Unknown values are "unknown".
func ThisMachine() Machine {
	return Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: kernel(), Go: runtime.Version(), Commit: commit()}
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return "Linux " + strings.TrimSpace(string(text))
}

func commit() string {
	text, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(text))
	same := exec.Command("git", "diff", "--quiet", "HEAD", "--", ":(top)", ":(top,exclude)bench/records", ":(top,exclude)docs/performance*").Run()
	if same != nil {
		name += "-dirty"
	}
	return name
}
