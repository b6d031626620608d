;; Dials its target twice, and returns failure.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $again
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    drop)
  (func (export "probe") (result i32)
    call $again
    call $again
    i32.const 2))
