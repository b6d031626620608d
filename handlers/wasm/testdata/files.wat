;; Reads the file "path" of its config with the function that "op" names: s for stat, f for statfs, l for list,
;; and r for read from 0 on. Its message is what it got, or the error, and it returns 0 or 2.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "last_error" (func $error (param i32 i32) (result i32)))
  (import "prober_v1_files" "stat" (func $stat (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_files" "statfs" (func $statfs (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_files" "list" (func $list (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_files" "read" (func $read (param i32 i32 i64 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "op")
  (data (i32.const 8) "path")
  (func $call (param i32 i32 i32) (result i32)
    local.get 0 i32.const 115 i32.eq
    if i32.const 1024 local.get 1 i32.const 8192 local.get 2 call $stat return end
    local.get 0 i32.const 102 i32.eq
    if i32.const 1024 local.get 1 i32.const 8192 local.get 2 call $statfs return end
    local.get 0 i32.const 108 i32.eq
    if i32.const 1024 local.get 1 i32.const 8192 local.get 2 call $list return end
    i32.const 1024 local.get 1 i64.const 0 i32.const 8192 i32.const 8192 call $read)
  (func (export "probe") (result i32) (local i32 i32 i32)
    i32.const 0 i32.const 2 i32.const 16 i32.const 8 call $config drop
    i32.const 16 i32.load local.set 0
    i32.const 8 i32.const 4 i32.const 1024 i32.const 6000 call $config local.set 1
    ;; at first with a buffer of one byte
    local.get 0 local.get 1 i32.const 1 call $call local.tee 2
    i32.const 1 i32.gt_s
    if
    local.get 0 i32.const 114 i32.ne
    if local.get 0 local.get 1 i32.const 8192 call $call local.set 2 end
    end
    local.get 2 i32.const 0 i32.lt_s
    if
      i32.const 8192
      i32.const 8192 i32.const 4096 call $error
      call $message
      i32.const 2
      return
    end
    i32.const 8192 local.get 2 call $message
    i32.const 0))
