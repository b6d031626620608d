;; Sends the request "req" of its config. It reports the head of the response, or the body if the config
;; has "body", or the error.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_http" "do" (func $do (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_http" "head" (func $head (param i32 i32 i32) (result i32)))
  (import "prober_v1_http" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_http" "close" (func $close (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "req")
  (data (i32.const 8) "body")
  (data (i32.const 16) "posted")
  (func $fail (result i32)
    i32.const 8192
    i32.const 8192
    i32.const 4096
    call $error
    call $message
    i32.const 2)
  (func (export "probe") (result i32)
    (local i32 i32 i32)
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    i32.const 16
    i32.const 6
    call $do
    local.tee 0
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    i32.const 8
    i32.const 4
    i32.const 8192
    i32.const 0
    call $config
    i32.const 0
    i32.lt_s
    if
    i32.const 8192
    local.get 0
    i32.const 8192
    i32.const 8192
    call $head
    call $message
    local.get 0
    call $close
    return
    end
    loop
    local.get 0
    i32.const 8192
    local.get 1
    i32.add
    i32.const 1024
    i32.const -1
    call $read
    local.tee 2
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    local.get 1
    local.get 2
    i32.add
    local.set 1
    local.get 2
    br_if 0
    end
    i32.const 8192
    local.get 1
    call $message
    i32.const 0))
