;; Dials the URL in its config. It returns the connection's info and success, or the text of the error
;; and failure.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "info" (func $info (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "url")
  (func (export "probe") (result i32)
    (local i32)
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 1024
    call $config
    i32.const 0
    call $dial
    local.tee 0
    i32.const 0
    i32.lt_s
    if
    i32.const 2048
    i32.const 2048
    i32.const 4096
    call $error
    call $message
    i32.const 2
    return
    end
    i32.const 2048
    local.get 0
    i32.const 2048
    i32.const 8192
    call $info
    call $message
    i32.const 0))
