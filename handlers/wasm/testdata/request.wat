;; Reports its request document.
(module
  (import "prober_v1" "request_read" (func $request (param i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 0
    i32.const 65536
    call $request
    call $message
    i32.const 0))
