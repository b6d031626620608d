;; Loops for ever.
(module
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    loop
      br 0
    end
    i32.const 0))
