;; Dials its target and waits in a host call for an answer, without a timeout.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    i32.const 64
    i32.const 64
    i32.const -1
    call $read))
