;; Returns an error.
(module
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const -1))
