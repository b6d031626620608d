;; Grows its memory in each call and writes to the new page, which must be empty.
(module
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    (local i32)
    i32.const 1
    memory.grow
    drop
    i32.const 65536
    i32.load
    local.set 0
    i32.const 65536
    i32.const 2
    i32.store
    local.get 0))
