;; Dials its target for ever, without closing the connections.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    loop
      i32.const 0
      i32.const 0
      i32.const 0
      call $dial
      drop
      br 0
    end
    i32.const 0))
