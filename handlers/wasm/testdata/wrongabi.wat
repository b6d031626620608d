;; Declares a version of the contract that does not exist.
(module
  (import "prober_v9" "message" (func $message (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 0))
