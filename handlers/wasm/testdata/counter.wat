;; Counts its calls in memory. The first call of an instance returns success, later calls failure.
(module
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.load
    local.set 0
    i32.const 0
    i32.const 1
    i32.store
    local.get 0))
