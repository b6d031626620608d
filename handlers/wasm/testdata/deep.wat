;; Dials its target, recurses a quarter of a million times, and then waits in a host call for an answer,
;; without a timeout.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $deep (param i32 i32) (result i32)
    local.get 0
    i32.eqz
    if
      local.get 1
      i32.const 64
      i32.const 64
      i32.const -1
      call $read
      return
    end
    local.get 0
    i32.const 1
    i32.sub
    local.get 1
    call $deep
    local.get 0
    i32.add)
  (func (export "probe") (result i32)
    i32.const 250000
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    call $deep))
