;; Recurses for ever.
(module
  (memory (export "memory") 1)
  (func $again (export "probe") (result i32)
    call $again))
