package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/files"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func filesFuncs() map[string]hostFunc {
	return map[string]hostFunc{
		"stat":   fileDocument(files.Stat),
		"statfs": fileDocument(files.Statfs),
		"list":   fileDocument(files.List),
		"read":   i32(fileRead),
	}
}

// fileUse is what a call has used of files.
type fileUse struct {
	calls   int
	read    int // bytes
	entries int // of listed folders

	// The last document, if it did not fit into the buffer: the guest calls again with a larger one.
	op   files.Op
	path string
	doc  []byte // nil if the guest has it
}

// fileDocument returns the function of an operation whose reply is a document.
func fileDocument(op files.Op) hostFunc {
	return i32(func(c *Call, mem api.Memory, a args) int32 {
		path, bad := c.filePath(mem, a)
		if bad != 0 {
			return bad
		}
		u := &c.files
		if u.doc == nil || u.op != op || u.path != path {
			r := files.Request{Op: op, Path: path, Most: c.plugin.Limits.FileEntries - u.entries}
			reply, bad := c.file(&r)
			if bad != 0 {
				return bad
			}
			u.op, u.path, u.doc = op, path, document(op, &reply)
			u.entries += len(reply.List.Entries)
		}
		doc := u.doc
		if len(doc) <= int(uint32(a[3])) {
			u.doc = nil
		}
		return c.put(mem, a, 2, doc)
	})
}

// document returns the document of a reply.
func document(op files.Op, r *files.Reply) []byte {
	switch op {
	case files.Stat:
		return abi.Append(nil, &r.Info)
	case files.Statfs:
		return abi.Append(nil, &r.Filesystem)
	default:
		return abi.Append(nil, &r.List)
	}
}

func fileRead(c *Call, mem api.Memory, a args) int32 {
	path, bad := c.filePath(mem, a)
	if bad != 0 {
		return bad
	}
	offset, room := int64(a[2]), int(uint32(a[4]))
	switch left := c.plugin.Limits.FileRead - c.files.read; {
	case offset < 0 || room == 0:
		return c.fail(abi.EINVAL, "read %.200s: the offset is below 0, or the buffer is empty", path)
	case left <= 0:
		c.Hit(plugin.LimitFileRead)
		return c.fail(abi.EDQUOT, "read %.200s: more than %d bytes of files in one run", path, c.files.read)
	default:
		room = min(room, left)
	}
	reply, bad := c.file(&files.Request{Op: files.Read, Path: path, Offset: offset, Most: room})
	if bad != 0 {
		return bad
	}
	c.files.read += len(reply.Data)
	return c.put(mem, a, 3, reply.Data)
}

// filePath returns the path of a host call, or the negative number of an error.
func (c *Call) filePath(mem api.Memory, a args) (string, int32) {
	switch {
	case c.inInitialize || c.offline:
		return "", c.fail(abi.EPERM, "files can be read from probe only")
	case uint32(a[1]) > plugin.MaxFilePath:
		return "", c.fail(abi.EINVAL, "files: a path of %d bytes; at most %d are allowed", uint32(a[1]), plugin.MaxFilePath)
	}
	text, ok := a.span(mem, 0)
	if !ok {
		return "", c.badPointer()
	}
	path := string(text)
	if err := plugin.CheckFilePath(path); err != nil {
		return "", c.fail(abi.EINVAL, "files: %.200q: %v", path, err)
	}
	return path, 0
}

// file carries out a request if the grants allow it. It returns the negative number of an error.
func (c *Call) file(r *files.Request) (reply files.Reply, bad int32) {
	start := c.host.Clock.Now()
	c.files.doc = nil
	err := c.countFile()
	if err == nil {
		err = c.allowFile(r)
	}
	if err == nil {
		c.idle(waiting{call: string(r.Op), where: r.Path}, func(ctx context.Context) { reply, err = c.host.Files(ctx, *r) })
	}
	c.clearFault()
	event := probe.TraceEvent{Type: probe.TraceCall, Name: string(r.Op), Detail: r.Path, Duration: c.host.since(start)}
	if err == nil {
		c.Trace(event)
		return reply, 0
	}
	if l, ok := errors.AsType[*limit](err); ok {
		c.Hit(l.which)
	}
	if errors.Is(err, files.ErrEntries) {
		c.Hit(plugin.LimitFileEntries)
	}
	event.Detail = c.errorText(err)
	if c.countDenied(err) {
		event.Type, event.Detail = probe.TraceDenied, err.Error()
		c.debug(err.Error(), "path", r.Path)
	}
	return reply, c.failTraced(event, fileErrno(err), "%v", err)
}

// countFile counts a call. It returns an error if that exceeds a limit.
func (c *Call) countFile() error {
	if most := c.plugin.Limits.FileCalls; c.files.calls >= most {
		return &limit{plugin.LimitFileCalls, abi.EDQUOT, fmt.Sprintf("more than %d calls for files in one run", most)}
	}
	c.files.calls++
	return nil
}

// allowFile checks the path of a request, and completes the request.
func (c *Call) allowFile(r *files.Request) error {
	g, err := c.plugin.Permissions.File(r.Path)
	if err != nil {
		return fmt.Errorf("%s %.200s: %w", r.Op, r.Path, err)
	}
	r.Pattern = g.String()
	r.Allowed = func(path string) error {
		_, err := c.plugin.Permissions.File(path)
		return err
	}
	return nil
}

// fileErrno returns the number of an error of a file.
func fileErrno(err error) abi.Errno {
	if _, ok := errors.AsType[*egress.Denied](err); ok {
		return abi.EACCES
	}
	if _, ok := errors.AsType[*files.HangError](err); ok {
		return abi.ETIMEDOUT
	}
	if l, ok := errors.AsType[*limit](err); ok {
		return l.errno
	}
	for _, known := range []struct {
		err   error
		errno abi.Errno
	}{
		{fs.ErrNotExist, abi.ENOENT},
		{syscall.ENOTDIR, abi.ENOENT},
		{fs.ErrPermission, abi.EACCES},
		{files.ErrEntries, abi.EDQUOT},
		{files.ErrType, abi.EINVAL},
		{files.ErrFile, abi.EINVAL},
		{files.ErrFolder, abi.EINVAL},
		{errors.ErrUnsupported, abi.ENOTSUP},
		{context.DeadlineExceeded, abi.ETIMEDOUT},
		{context.Canceled, abi.ETIMEDOUT},
	} {
		if errors.Is(err, known.err) {
			return known.errno
		}
	}
	return abi.EIO
}
