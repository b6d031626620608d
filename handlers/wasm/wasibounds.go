package wasm

import (
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/abi"
)

// What a guest may give to one function of WASI. A path of 32 MiB, in a world without
// files, kept wazero busy for a second past the deadline and took as much again of the
// host's memory; nothing interrupts a host function.
const (
	maxVectors = 1024 // of a read or write, and subscriptions of a poll; as IOV_MAX
	maxPath    = 4096 // bytes; as PATH_MAX

	tooLongName abi.Errno = 37 // ENAMETOOLONG, which the contract's own functions do not answer
)

// wasiBounds returns, by the name of a function, which of its parameters say how many
// vectors or subscriptions there are, and which how long a path is.
func wasiBounds() (vectors, paths map[string][]int) {
	vectors = map[string][]int{"fd_read": {2}, "fd_pread": {2}, "fd_write": {2}, "fd_pwrite": {2}, "poll_oneoff": {2}}
	paths = map[string][]int{
		"path_create_directory": {2}, "path_filestat_get": {3}, "path_filestat_set_times": {3}, "path_link": {3, 6}, "path_open": {3},
		"path_readlink": {2}, "path_remove_directory": {2}, "path_rename": {2, 5}, "path_symlink": {1, 4}, "path_unlink_file": {2},
	}
	return vectors, paths
}

// boundWASI puts functions that look at what they are given in the place of wazero's. It
// has wazero's own from a runtime of its own, which is the one way to get at them.
func boundWASI(ctx context.Context, builder wazero.HostModuleBuilder) error {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	theirs := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(theirs)
	compiled, err := theirs.Compile(ctx)
	if err != nil {
		return err
	}
	vectors, paths := wasiBounds()
	for name, def := range compiled.ExportedFunctions() {
		f, ok := def.GoFunction().(api.GoModuleFunction)
		switch {
		case vectors[name] != nil && ok:
			f = bounded(f, vectors[name], maxVectors, abi.EINVAL)
		case paths[name] != nil && ok:
			f = bounded(f, paths[name], maxPath, tooLongName)
		case vectors[name] != nil || paths[name] != nil:
			return fmt.Errorf("%s.%s is no function of the host", binary.WASI, name)
		default:
			continue
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(f, def.ParamTypes(), def.ResultTypes()).Export(name)
	}
	return nil
}

// bounded is f as long as the parameters at the indices are not above most, and answers
// errno otherwise.
func bounded(f api.GoModuleFunction, indices []int, most uint32, errno abi.Errno) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		if slices.ContainsFunc(indices, func(i int) bool { return uint32(stack[i]) > most }) {
			stack[0] = uint64(errno)
			return
		}
		f.Call(ctx, mod, stack)
	}
}
