package binary

// proposal is an extension of WebAssembly that wazero does not run.
type proposal struct {
	name string // of its repository at github.com/WebAssembly
	off  string // how to build without it
}

var (
	exceptionHandling  = &proposal{"exception-handling", "build with clang -fno-exceptions, rustc -C panic=abort or zig -mcpu=generic-exception_handling"}
	tailCalls          = &proposal{"tail-call", "build with clang -mno-tail-call, rustc -C target-feature=-tail-call or zig -mcpu=generic-tail_call"}
	functionReferences = &proposal{"function-references", "build for a target without garbage collection; clang, rustc, Zig and Go emit none"}
	garbageCollection  = &proposal{"gc", "build for a target without it; clang, rustc, Zig and Go emit none, Kotlin and Dart cannot do without"}
	threads            = &proposal{"threads", "build for wasm32-wasip1 with clang -mno-atomics and no -pthread, rustc -C target-feature=-atomics or zig -fsingle-threaded -mcpu=generic-atomics"}
	relaxedSIMD        = &proposal{"relaxed-simd", "build with clang -mno-relaxed-simd, rustc -C target-feature=-relaxed-simd or zig -mcpu=generic-relaxed_simd"}
	halfPrecision      = &proposal{"half-precision", "build with clang -mno-fp16, rustc -C target-feature=-fp16 or zig -mcpu=generic-fp16"}
	memory64           = &proposal{"memory64", "build for wasm32 in place of wasm64"}
	multiMemory        = &proposal{"multi-memory", "build with clang -mno-multimemory, rustc -C target-feature=-multimemory or zig -mcpu=generic-multimemory, and merge no modules"}
	extendedConst      = &proposal{"extended-const", "build with clang -mno-extended-const, rustc -C target-feature=-extended-const or zig -mcpu=generic-extended_const, and link no position-independent code"}
	customPageSizes    = &proposal{"custom-page-sizes", "build without wasm-ld --page-size"}
	wideArithmetic     = &proposal{"wide-arithmetic", "build with clang -mno-wide-arithmetic, rustc -C target-feature=-wide-arithmetic or zig -mcpu=generic-wide_arithmetic"}
	stackSwitching     = &proposal{"stack-switching", "build without continuations"}
)

// ofOpcode returns the proposal that defines an opcode; nil if none is known.
func ofOpcode(op byte) *proposal {
	switch {
	case 0x06 <= op && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f: // try, catch, throw, rethrow, throw_ref, delegate, catch_all, try_table
		return exceptionHandling
	case op == 0x12, op == 0x13: // return_call, return_call_indirect
		return tailCalls
	case op == 0x14, op == 0x15, 0xd4 <= op && op <= 0xd6: // call_ref, return_call_ref, ref.as_non_null, br_on_null, br_on_non_null
		return functionReferences
	case op == 0xd3, op == 0xfb: // ref.eq
		return garbageCollection
	case 0xe0 <= op && op <= 0xe6:
		return stackSwitching
	case op == 0xfe:
		return threads
	default:
		return nil
	}
}

// ofType returns the proposal that defines a type of values or references; nil if none is known.
func ofType(t byte) *proposal {
	switch {
	case t == 0x63, t == 0x64, t < 0x40: // ref null, ref, the index of a type
		return functionReferences
	case t == 0x69, t == 0x74: // exn, noexn
		return exceptionHandling
	case t == 0x68, t == 0x75: // cont, nocont
		return stackSwitching
	case 0x4e <= t && t <= 0x50, 0x5e <= t && t <= 0x5f, 0x6a <= t && t <= 0x6e, 0x71 <= t && t <= 0x73, t == 0x77, t == 0x78:
		return garbageCollection
	default:
		return nil
	}
}

// ofConstant returns the proposal that allows an opcode in constant expressions; nil if none is known.
func ofConstant(op byte) *proposal {
	if 0x6a <= op && op <= 0x6c || 0x7c <= op && op <= 0x7e { // add, sub and mul of integers
		return extendedConst
	}
	return ofOpcode(op)
}

// ofLimits returns the proposal that defines flags of the limits of a memory or a table; nil if there is none.
func ofLimits(flags byte) *proposal {
	switch {
	case flags&2 != 0:
		return threads
	case flags&4 != 0:
		return memory64
	case flags&8 != 0:
		return customPageSizes
	default:
		return nil
	}
}

// unsupported fails on a part of the module that wazero does not run. by is the proposal that defines it, nil if it is
// not known. It keeps an earlier error.
func (r *reader) unsupported(by *proposal, format string, args ...any) {
	switch {
	case r.Err != nil:
	case by == nil:
		r.failf(format+" is not supported", args...)
	default:
		r.failf(format+" is not supported: it belongs to the proposal %s; %s", append(args, by.name, by.off)...)
	}
}
