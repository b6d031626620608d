;; Returns success, but writes a result with failure.
(module
  (import "prober_v1" "result_write" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22result\22:\22failure\22}")
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 20
    call $result
    drop
    i32.const 0))
