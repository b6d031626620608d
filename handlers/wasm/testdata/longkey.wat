;; Reads a path of the config that is too long, and returns success if the result is -EINVAL.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 1025
    i32.const 2048
    i32.const 1024
    call $config
    i32.const 28
    i32.add))
