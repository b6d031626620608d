;; The smallest useful guest: sets a message and returns success.
(module
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "well")
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 4
    call $message
    i32.const 0))
