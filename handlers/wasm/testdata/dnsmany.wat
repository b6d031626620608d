;; Looks up "req" of its config until the host refuses, and reports the error.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "req")
  (func (export "probe") (result i32)
    loop
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    i32.const -1
    call $lookup
    i32.const 0
    i32.gt_s
    br_if 0
    end
    i32.const 8192
    i32.const 8192
    i32.const 4096
    call $error
    call $message
    i32.const 0))
