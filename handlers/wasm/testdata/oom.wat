;; Grows its memory until that fails, and then traps, as a malloc would.
(module
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    loop
      i32.const 16
      memory.grow
      i32.const -1
      i32.ne
      br_if 0
    end
    unreachable))
