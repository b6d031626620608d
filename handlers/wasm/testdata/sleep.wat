;; Sleeps for an hour: poll_oneoff with one subscription, to a clock.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 24
    i64.const 3600000000000
    i64.store
    i32.const 0
    i32.const 64
    i32.const 1
    i32.const 128
    call $poll
    drop
    i32.const 0))
