;; Grows its table until that fails, and returns success if it then has 65,536 entries.
(module
  (memory (export "memory") 1)
  (table 1 funcref)
  (func (export "probe") (result i32)
    loop
      ref.null
      i32.const 4096
      table.grow
      i32.const -1
      i32.ne
      br_if 0
    end
    table.size
    i32.const 65536
    i32.gt_u))
