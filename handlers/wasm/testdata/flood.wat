;; Writes to stdout, logs, messages and metrics for ever.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (import "prober_v1" "metric" (func $metric (param i32 i32 i32 i32 f64) (result i32)))
  (memory (export "memory") 16)
  (data (i32.const 0) "m\0a")
  (func (export "probe") (result i32)
    i32.const 1024
    i32.const 65
    i32.const 900000
    memory.fill
    i32.const 16
    i32.const 1024
    i32.store
    i32.const 20
    i32.const 900000
    i32.store
    loop
      i32.const 1
      i32.const 16
      i32.const 1
      i32.const 32
      call $write
      drop
      i32.const 1024
      i32.const 900000
      call $message
      i32.const 1
      i32.const 1024
      i32.const 900000
      call $log
      i32.const 0
      i32.const 1
      i32.const 0
      i32.const 0
      f64.const 1
      call $metric
      drop
      br 0
    end
    i32.const 0))
