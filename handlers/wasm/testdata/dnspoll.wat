;; Starts four look-ups of "req" of its config, and reads the answers repeatedly without waiting. Its
;; buffer is too small at first. It reports the last answer, or the error.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (import "prober_v1_dns" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "req")
  (func (export "probe") (result i32)
    (local i32 i32)
    i32.const 4
    local.set 0
    loop
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    i32.const -1
    call $lookup
    drop
    local.get 0
    i32.const 1
    i32.sub
    local.tee 0
    br_if 0
    end
    loop
    local.get 0
    i32.const 1
    i32.add
    local.set 0
    loop
    local.get 0
    i32.const 8192
    i32.const 1
    i32.const 0
    call $read
    local.tee 1
    i32.const -6
    i32.eq
    br_if 0
    end
    local.get 1
    i32.const 2
    i32.lt_s
    if
    i32.const 8192
    i32.const 8192
    i32.const 4096
    call $error
    call $message
    i32.const 2
    return
    end
    local.get 0
    i32.const 8192
    local.get 1
    i32.const 0
    call $read
    local.get 1
    i32.ne
    if
    i32.const 3
    return
    end
    local.get 0
    i32.const 4
    i32.lt_s
    br_if 0
    end
    i32.const 8192
    local.get 1
    call $message
    i32.const 0))
