;; Sends its target a datagram that is too long, which fails, then an empty one. It reports the error of
;; a read.
(module
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 3)
  (data (i32.const 0) "udp://")
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.const 6
    i32.const -1
    call $dial
    local.tee 0
    i32.const 0
    i32.const 65535
    i32.const -1
    call $write
    i32.const -35
    i32.ne
    if
    i32.const 3
    return
    end
    local.get 0
    i32.const 0
    i32.const 0
    i32.const -1
    call $write
    if
    i32.const 3
    return
    end
    local.get 0
    i32.const 0
    i32.const 100
    i32.const -1
    call $read
    i32.const -14
    i32.ne
    if
    i32.const 1
    return
    end
    i32.const 1024
    i32.const 1024
    i32.const 1024
    call $error
    call $message
    i32.const 0))
