;; Counts its calls in a global. The first call of an instance returns success, later calls failure.
(module
  (memory (export "memory") 1)
  (global (mut i32) (i32.const 0))
  (func (export "probe") (result i32)
    global.get 0
    i32.const 1
    global.set 0))
