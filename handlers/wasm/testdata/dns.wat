;; Looks up "req" of its config, and reports the answer or the error. If the config has "short", it waits
;; at most 50 ms for each byte of it.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (import "prober_v1_dns" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 40)
  (data (i32.const 0) "req")
  (data (i32.const 8) "short")
  (func $fail (result i32)
    i32.const 8192
    i32.const 8192
    i32.const 4096
    call $error
    call $message
    i32.const 2)
  (func (export "probe") (result i32)
    (local i32 i32)
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
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    local.get 1
    call $lookup
    local.tee 0
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    local.get 0
    i32.const 8192
    i32.const 2000000
    i32.const -1
    call $read
    local.tee 1
    i32.const 0
    i32.lt_s
    if
    call $fail
    return
    end
    i32.const 8192
    local.get 1
    call $message
    local.get 0
    i32.const 8192
    i32.const 0
    i32.const -1
    call $read
    i32.const -8
    i32.ne))
