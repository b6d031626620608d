;; Writes a result that is not valid JSON, and returns success.
(module
  (import "prober_v1" "result_write" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "well, well")
  (func (export "probe") (result i32)
    i32.const 0
    i32.const 10
    call $result
    drop
    i32.const 0))
