//! The functions of the host. In a native program, such as a unit test, each returns "not
//! supported".

macro_rules! imports {
    ($($module:literal { $($import:literal $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)* })*) => {
        $(
            #[cfg(target_arch = "wasm32")]
            #[link(wasm_import_module = $module)]
            extern "C" {
                $(#[link_name = $import] pub fn $name($($arg: $type),*) $(-> $ret)?;)*
            }
            $(
                #[cfg(not(target_arch = "wasm32"))]
                pub unsafe fn $name($(_: $type),*) $(-> $ret)? { $(-58 as $ret)? }
            )*
        )*
    };
}

imports! {
    "prober_v1" {
        "request_read" request_read(buf: *mut u8, cap: usize) -> i32;
        "config_get" config_get(key: *const u8, len: usize, buf: *mut u8, cap: usize) -> i32;
        "result_write" result_write(doc: *const u8, len: usize) -> i32;
        "message" message(text: *const u8, len: usize);
        "metric" metric(name: *const u8, len: usize, unit: *const u8, unit_len: usize, value: f64) -> i32;
        "log" log(level: i32, text: *const u8, len: usize);
        "log_enabled" log_enabled(level: i32) -> i32;
        "deadline_ms" deadline_ms() -> i64;
        "last_error" last_error(buf: *mut u8, cap: usize) -> i32;
    }
    "wasi_snapshot_preview1" {
        "clock_time_get" clock_time_get(clock: i32, precision: i64, ns: *mut u64) -> i32;
        "random_get" random_get(buf: *mut u8, len: usize) -> i32;
    }
    "prober_v1_net" {
        "dial" net_dial(url: *const u8, len: usize, timeout_ms: i32) -> i32;
        "read" net_read(handle: i32, buf: *mut u8, cap: usize, timeout_ms: i32) -> i32;
        "write" net_write(handle: i32, data: *const u8, len: usize, timeout_ms: i32) -> i32;
        "close" net_close(handle: i32) -> i32;
        "starttls" net_starttls(handle: i32, options: *const u8, len: usize) -> i32;
        "info" net_info(handle: i32, buf: *mut u8, cap: usize) -> i32;
        "poll" net_poll(handles: *const i32, len: usize, timeout_ms: i32) -> i32;
    }
    "prober_v1_http" {
        "do" http_do(req: *const u8, len: usize, body: *const u8, body_len: usize) -> i32;
        "head" http_head(handle: i32, buf: *mut u8, cap: usize) -> i32;
        "read" http_read(handle: i32, buf: *mut u8, cap: usize, timeout_ms: i32) -> i32;
        "close" http_close(handle: i32) -> i32;
    }
    "prober_v1_dns" {
        "lookup" dns_lookup(req: *const u8, len: usize, timeout_ms: i32) -> i32;
        "read" dns_read(handle: i32, buf: *mut u8, cap: usize, timeout_ms: i32) -> i32;
    }
    "prober_v1_kv" {
        "get" kv_get(key: *const u8, len: usize, buf: *mut u8, cap: usize) -> i32;
        "set" kv_set(key: *const u8, len: usize, value: *const u8, value_len: usize) -> i32;
        "delete" kv_delete(key: *const u8, len: usize) -> i32;
    }
    "prober_v1_icmp" {
        "echo" icmp_echo(req: *const u8, len: usize, timeout_ms: i32) -> i32;
        "read" icmp_read(handle: i32, buf: *mut u8, cap: usize) -> i32;
    }
    "prober_v1_files" {
        "stat" files_stat(path: *const u8, len: usize, buf: *mut u8, cap: usize) -> i32;
        "statfs" files_statfs(path: *const u8, len: usize, buf: *mut u8, cap: usize) -> i32;
        "read" files_read(path: *const u8, len: usize, offset: i64, buf: *mut u8, cap: usize) -> i32;
        "list" files_list(path: *const u8, len: usize, buf: *mut u8, cap: usize) -> i32;
    }
}
