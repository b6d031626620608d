;; The module of component.wasm, which wasm-tools made with the adapter of WASI preview 1 (in JavaScript, with
;; @bytecodealliance/jco 1.35.0 and its adapter for reactors):
;;
;;   wasm-tools parse component.wat -o module.wasm
;;   wasm-tools component embed ../../../sdk/wit module.wasm --world checked-plugin -o embedded.wasm
;;   wasm-tools component new embedded.wasm --adapt wasi_snapshot_preview1.reactor.wasm -o component.wasm
(module
  (import "prober:plugin/core@1.0.0" "message" (func $m (param i32 i32)))
  (import "prober:plugin/net@1.0.0" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober:plugin/core@1.0.0" "log-enabled" (func $le (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $r (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "hi")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "validate-config") (result i32) (i32.const 0))
  (func (export "probe") (result i32) (drop (call $r (i32.const 16) (i32.const 4))) (drop (call $le (i32.const 1))) (if (i32.lt_s (call $dial (i32.const 0) (i32.const 0) (i32.const -1)) (i32.const 0)) (then (return (i32.const 2)))) (call $m (i32.const 0) (i32.const 2)) (i32.const 0)))
