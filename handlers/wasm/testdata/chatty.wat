;; Reads from its target byte by byte for ever, even after the end of the stream.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    local.set 0
    loop
      local.get 0
      i32.const 64
      i32.const 1
      i32.const 10
      call $read
      drop
      br 0
    end
    i32.const 0))
