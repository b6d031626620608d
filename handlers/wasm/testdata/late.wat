;; Dials its target and waits for an answer until the deadline. "then" of its config, a number of one
;; digit, selects the code after the wait: 0 returns, 1 loops, 2 sleeps, 3 dials and writes for ever, 4
;; writes to every output and to kv, 5 traps, 6 returns an invalid result, 7 makes a DNS look-up and an
;; HTTP request. The host must not let this code run.
(module
  (import "prober_v1" "config_get" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (import "prober_v1" "metric" (func $metric (param i32 i32 i32 i32 f64) (result i32)))
  (import "prober_v1" "log" (func $log (param i32 i32 i32)))
  (import "prober_v1" "request_read" (func $request (param i32 i32) (result i32)))
  (import "prober_v1_kv" "set" (func $set (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_net" "read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_net" "write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (import "prober_v1_http" "do" (func $do (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "then")
  (data (i32.const 8) "late")
  (data (i32.const 1024) "{\22name\22:\22late.example\22,\22server\22:\22target\22}")
  (data (i32.const 1280) "{\22url\22:\22http:///late\22}")
  (func (export "probe") (result i32)
    (local i32)
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    local.tee 0
    i32.const 64
    i32.const 64
    i32.const -1
    call $read
    drop
    i32.const 0
    i32.const 4
    i32.const 16
    i32.const 8
    call $config
    drop
    i32.const 16
    i32.load
    i32.const 49
    i32.eq
    if
    loop
    br 0
    end
    end
    i32.const 16
    i32.load
    i32.const 50
    i32.eq
    if
    i32.const 280
    i64.const 3600000000000
    i64.store
    i32.const 256
    i32.const 320
    i32.const 1
    i32.const 384
    call $poll
    drop
    end
    i32.const 16
    i32.load
    i32.const 51
    i32.eq
    if
    loop
    local.get 0
    i32.const 8
    i32.const 4
    i32.const -1
    call $write
    drop
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    i32.const 8
    i32.const 4
    i32.const -1
    call $write
    drop
    br 0
    end
    end
    i32.const 16
    i32.load
    i32.const 52
    i32.eq
    if
    i32.const 8
    i32.const 4
    call $message
    i32.const 8
    i32.const 4
    i32.const 0
    i32.const 0
    f64.const 1
    call $metric
    drop
    i32.const 1
    i32.const 8
    i32.const 4
    call $log
    i32.const 512
    i32.const 512
    call $request
    drop
    i32.const 8
    i32.const 4
    i32.const 8
    i32.const 4
    call $set
    drop
    end
    i32.const 16
    i32.load
    i32.const 53
    i32.eq
    if
    unreachable
    end
    i32.const 16
    i32.load
    i32.const 54
    i32.eq
    if
    i32.const 42
    return
    end
    i32.const 16
    i32.load
    i32.const 55
    i32.eq
    if
    i32.const 1024
    i32.const 42
    i32.const 0
    call $lookup
    drop
    i32.const 1280
    i32.const 22
    i32.const 0
    i32.const 0
    call $do
    drop
    end
    i32.const 0))
