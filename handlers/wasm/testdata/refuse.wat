;; Refuses every config, with the config's password in the message.
(module
  (import "prober_v1" "config_get" (func $config_get (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "password")
  (func (export "probe") (result i32)
    i32.const 0)
  (func (export "validate_config") (result i32)
    i32.const 64
    i32.const 0
    i32.const 8
    i32.const 64
    i32.const 64
    call $config_get
    call $message
    i32.const 1))
