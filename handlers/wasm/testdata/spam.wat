;; Logs a short line for ever.
(module
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "spam")
  (func (export "probe") (result i32)
    loop
      i32.const 3
      i32.const 0
      i32.const 4
      call $log
      br 0
    end
    i32.const 0))
