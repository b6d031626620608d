;; Dials its target, reads a byte, starts TLS with the options of its config, and sends a line. It reports
;; the answer, or the error.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "starttls" (func $starttls (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "tls")
  (data (i32.const 8) "hello\0a")
  (func $fail (result i32)
    i32.const 2048
    i32.const 2048
    i32.const 4096
    call $error
    call $message
    i32.const 2)
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    local.tee 0
    i32.const 2048
    i32.const 1
    i32.const -1
    call $read
    i32.const 1
    i32.ne
    if
    call $fail
    return
    end
    local.get 0
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 8192
    call $config
    call $starttls
    if
    call $fail
    return
    end
    local.get 0
    i32.const 8
    i32.const 6
    i32.const -1
    call $write
    drop
    i32.const 2048
    local.get 0
    i32.const 2048
    i32.const 2048
    i32.const -1
    call $read
    call $message
    i32.const 0))
