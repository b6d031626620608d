package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// lookPath returns the path of the program of l. A name with a slash is relative to the directory
// of l. Any other name is looked up in the PATH of its environment.
func lookPath(l Launch) (string, error) {
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
