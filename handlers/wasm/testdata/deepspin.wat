;; Recurses half a million times, and then loops for ever.
(module
  (memory (export "memory") 1)
  (func $deep (param i32) (result i32)
    local.get 0
    i32.eqz
    if
      loop
        br 0
      end
    end
    local.get 0
    i32.const 1
    i32.sub
    call $deep
    local.get 0
    i32.add)
  (func (export "probe") (result i32)
    i32.const 500000
    call $deep))
