;; Dials its target with TLS, and writes until the buffers of a peer that does not read are full.
(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 0) "tls://?verify=none")
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.const 18
    i32.const 0
    call $dial
    local.tee 0
    i32.const 1024
    i32.const 196608
    i32.const -1
    call $write
    drop
    local.get 0
    i32.const 64
    i32.const 64
    i32.const -1
    call $read
    drop
    i32.const 0))
