;; Sends the request "req" of its config, waits 10 ms for the body of the response, and returns without
;; closing it.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_http" "do" (func $do (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_http" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "req")
  (func (export "probe") (result i32)
    i32.const 1024
    i32.const 0
    i32.const 3
    i32.const 1024
    i32.const 4096
    call $config
    i32.const 0
    i32.const 0
    call $do
    i32.const 8192
    i32.const 100
    i32.const 10
    call $read
    i32.const -6
    i32.ne))
