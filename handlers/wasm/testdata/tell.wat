;; Logs the password of its config in probe and in validate_config, and tries to dial it.
(module
  (import "prober_v1" "config_get" (func $config_get (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "password")
  (func $tell (result i32)
    i32.const 1
    i32.const 64
    i32.const 0
    i32.const 8
    i32.const 64
    i32.const 64
    call $config_get
    call $log
    i32.const 64
    i32.const 19
    i32.const -1
    call $dial
    drop
    i32.const 0)
  (func (export "probe") (result i32)
    call $tell)
  (func (export "validate_config") (result i32)
    call $tell))
