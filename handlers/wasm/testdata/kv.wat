;; Appends "add" of its config to the value of the key "k", and reports the old value. "size" is the size
;; of another value that it stores. It returns "code", a number of one digit. 9 makes it trap, and 8
;; makes it return -1.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_kv" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_kv" "set" (func $set (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_kv" "delete" (func $delete (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "k")
  (data (i32.const 8) "add")
  (data (i32.const 16) "code")
  (data (i32.const 24) "big")
  (data (i32.const 32) "forget")
  (func (export "probe") (result i32)
    (local i32 i32)
    i32.const 0
    i32.const 1
    i32.const 1024
    i32.const 1024
    call $get
    local.tee 0
    i32.const 0
    i32.lt_s
    if
    i32.const 0
    local.set 0
    end
    i32.const 1024
    local.get 0
    call $message
    i32.const 0
    i32.const 1
    i32.const 1024
    i32.const 8
    i32.const 3
    local.get 0
    i32.const 1024
    i32.add
    i32.const 100
    call $config
    local.get 0
    i32.add
    call $set
    drop
    i32.const 24
    i32.const 3
    i32.const 4096
    i32.const 0
    call $config
    i32.const 0
    i32.gt_s
    if
    i32.const 24
    i32.const 3
    i32.const 0
    i32.const 65536
    call $set
    if
    i32.const 4096
    i32.const 4096
    i32.const 1024
    call $error
    call $message
    end
    end
    i32.const 32
    i32.const 6
    i32.const 4096
    i32.const 0
    call $config
    i32.const 0
    i32.gt_s
    if
    i32.const 0
    i32.const 1
    call $delete
    drop
    end
    i32.const 16
    i32.const 4
    i32.const 16384
    i32.const 4
    call $config
    drop
    i32.const 16384
    i32.load
    i32.const 48
    i32.sub
    local.tee 1
    i32.const 9
    i32.eq
    if
    unreachable
    end
    local.get 1
    i32.const 8
    i32.eq
    if
    i32.const -1
    return
    end
    local.get 1))
