;; Waits for a descriptor without a timeout: poll_oneoff with one subscription, for writing to
;; descriptor 1. wazero sleeps for 292 years.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 8
    i32.const 2
    i32.store8
    i32.const 16
    i32.const 1
    i32.store
    i32.const 0
    i32.const 64
    i32.const 1
    i32.const 128
    call $poll
    drop
    i32.const 0))
