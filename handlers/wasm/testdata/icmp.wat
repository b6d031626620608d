;; Sends the echo request "req" of its config once, and once more for each byte of "more". It waits at
;; most 50 ms for each byte of "short". It reports the last reply, or the error.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_icmp" "echo" (func $echo (param i32 i32 i32) (result i32)))
  (import "prober_v1_icmp" "read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "req")
  (data (i32.const 8) "short")
  (data (i32.const 16) "more")
  (func $fail (result i32)
    i32.const 8192
    i32.const 8192
    i32.const 4096
    call $error
    call $message
    i32.const 2)
  (func (export "probe") (result i32)
    (local i32 i32 i32 i32)
    i32.const -1
    local.set 1
    i32.const 8
    i32.const 5
    i32.const 8192
    i32.const 0
    call $config
    local.tee 0
    i32.const 0
    i32.gt_s
    if
    local.get 0
    i32.const 50
    i32.mul
    local.set 1
    end
    i32.const 16
    i32.const 4
    i32.const 8192
    i32.const 0
    call $config
    local.set 2
    loop
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    local.get 1
    call $echo
    local.tee 0
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    local.get 0
    i32.const 8192
    i32.const 1
    call $read
    drop
    local.get 0
    i32.const 8192
    i32.const 4096
    call $read
    local.tee 3
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    local.get 2
    i32.const 1
    i32.sub
    local.tee 2
    i32.const -1
    i32.gt_s
    br_if 0
    end
    i32.const 8192
    local.get 3
    call $message
    local.get 0
    i32.const 8192
    i32.const 0
    call $read
    i32.const -8
    i32.ne))
