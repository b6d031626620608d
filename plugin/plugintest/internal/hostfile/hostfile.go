// Package hostfile simulates the files of a host, for guests with the capability "files".
package hostfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// File is one file, folder or file system.
type File struct {
	Info       abi.FileInfo  // without the time
	Age        time.Duration // since the last change
	Data       []byte
	Link       string // of a symbolic link: an absolute path
	Filesystem *abi.FilesystemInfo
	Behaviour  behaviour
}

// behaviour is what a file does instead of an answer.
type behaviour string

const (
	timeout behaviour = "timeout" // never answers
	denied  behaviour = "denied"  // the user of prober may not read it
)

// Files are the files of a host by their paths. The folders of each path exist too.
type Files map[string]*File

const maxFiles = 65_536

// Decode reads the field files of a host.
func Decode(r *field.Reader, n *yamlpos.Node, at string) Files {
	all := make(Files)
	r.Entries(n, at, func(key, value *yamlpos.Node, at string) {
		f := decodeFile(r, value, at)
		switch err := plugin.CheckFilePath(key.Value); {
		case err != nil:
			r.Error(key, at, err)
		case len(all) >= maxFiles:
			r.Errorf(key, at, "more than %d files", maxFiles)
		default:
			all[key.Value] = f
		}
	})
	return all
}

// decodeFile reads one file: its text, or a mapping.
func decodeFile(r *field.Reader, n *yamlpos.Node, at string) *File {
	f := &File{Info: abi.FileInfo{Type: abi.TypeFile, Mode: 0o644}}
	if n.Kind == yamlpos.Scalar {
		text, _ := r.Text(n, at)
		f.Data = []byte(text)
		f.Info.Size = int64(len(f.Data))
		return f
	}
	size := int64(-1)
	r.Mapping(n, at, yamlpos.Fields{
		"text":       func(n *yamlpos.Node, at string) { text, _ := r.Text(n, at); f.Data = []byte(text) },
		"size":       count(r, &size),
		"age":        r.Duration(&f.Age),
		"type":       yamlpos.OneOf(&r.Decoder, &f.Info.Type, abi.TypeFile, abi.TypeDirectory, abi.TypeFIFO, abi.TypeSocket, abi.TypeDevice),
		"mode":       field.Parsed(r, &f.Info.Mode, parseMode),
		"uid":        r.Int(&f.Info.UID, 0, 1<<31-1),
		"gid":        r.Int(&f.Info.GID, 0, 1<<31-1),
		"link":       r.NonEmpty(&f.Link),
		"behaviour":  yamlpos.OneOf(&r.Decoder, &f.Behaviour, timeout, denied),
		"filesystem": func(n *yamlpos.Node, at string) { f.Filesystem = decodeFilesystem(r, n, at) },
	})
	if f.Info.Size = size; size < 0 {
		f.Info.Size = int64(len(f.Data))
	}
	if f.Filesystem != nil && yamlpos.Field(n, "type") == nil {
		f.Info.Type = abi.TypeDirectory
	}
	return f
}

func decodeFilesystem(r *field.Reader, n *yamlpos.Node, at string) *abi.FilesystemInfo {
	s := new(abi.FilesystemInfo)
	r.Mapping(n, at, yamlpos.Fields{
		"total": count(r, &s.Total), "free": count(r, &s.Free), "available": count(r, &s.Available),
		"inodes": count(r, &s.Inodes), "inodesFree": count(r, &s.InodesFree), "readOnly": r.Bool(&s.ReadOnly),
	})
	return s
}

// count reads a size or a number, such as 10Mi.
func count(r *field.Reader, to *int64) field.Read {
	return r.Form(shape.Size(), field.Parsed(r, to, func(text string) (int64, error) {
		n, err := plugin.ParseSize(text)
		if err == nil && n > 1<<62 {
			err = fmt.Errorf("%.40q is too large", text)
		}
		return int64(n), err
	}))
}

// parseMode parses permissions such as "0640".
func parseMode(text string) (int, error) {
	mode, err := strconv.ParseUint(text, 8, 16)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%.40q must be octal permissions in quotes, such as \"0640\"", text)
	}
	return int(mode), nil
}

// Do answers a request at the time of a clock.
func (all Files) Do(ctx context.Context, clock wasm.Clock, r wasm.FileRequest) (reply wasm.FileReply, err error) {
	fail := func(err error) (wasm.FileReply, error) { return reply, fmt.Errorf("%s %s: %w", r.Op, r.Path, err) }
	name, f := r.Path, all.find(r.Path)
	if f != nil && f.Link != "" {
		if err := r.Allowed(f.Link); err != nil {
			return reply, fmt.Errorf("%s leads to %s: %w", r.Path, f.Link, err)
		}
		name, f = f.Link, all.find(f.Link)
	}
	switch {
	case f == nil:
		return fail(fs.ErrNotExist)
	case f.Behaviour == timeout:
		clock.Wait(ctx, nil, -1)
		return fail(ctx.Err())
	case f.Behaviour == denied:
		return fail(fs.ErrPermission)
	}
	switch r.Op {
	case "stat":
		reply.Info = f.Info
		reply.Info.Modified = clock.Now().Add(-f.Age)
	case "statfs":
		reply.Filesystem = all.filesystem(name)
	case "read":
		if f.Info.Type != abi.TypeFile {
			return fail(wasm.ErrFileType)
		}
		data := f.Data[min(r.Offset, int64(len(f.Data))):]
		reply.Data = data[:min(r.Most, len(data))]
	case "list":
		if f.Info.Type != abi.TypeDirectory {
			return fail(wasm.ErrFileType)
		}
		if reply.List.Entries = all.entries(name); len(reply.List.Entries) > r.Most {
			return fail(wasm.ErrFileEntries)
		}
	default:
		return fail(errors.ErrUnsupported)
	}
	return reply, nil
}

// find returns the file at a path, or nil.
func (all Files) find(name string) *File {
	if f := all[name]; f != nil {
		return f
	}
	if name == "/" || len(all.entries(name)) > 0 {
		return &File{Info: abi.FileInfo{Type: abi.TypeDirectory, Mode: 0o755}}
	}
	return nil
}

// filesystem returns the file system of a path, by the nearest folder with one.
func (all Files) filesystem(name string) abi.FilesystemInfo {
	for {
		if f := all[name]; f != nil && f.Filesystem != nil {
			return *f.Filesystem
		}
		if name == "/" {
			return abi.FilesystemInfo{}
		}
		name = path.Dir(name)
	}
}

// entries returns the entries of a folder, sorted by name.
func (all Files) entries(folder string) (entries []abi.FileEntry) {
	types := make(map[string]string)
	prefix := strings.TrimSuffix(folder, "/") + "/"
	for name, f := range all {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest == "" {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		switch {
		case deeper:
			types[first] = abi.TypeDirectory
		case f.Link != "":
			types[first] = abi.TypeSymlink
		default:
			types[first] = f.Info.Type
		}
	}
	for name, kind := range types {
		entries = append(entries, abi.FileEntry{Name: name, Type: kind})
	}
	slices.SortFunc(entries, func(a, b abi.FileEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}
