extern "prober_v1" fn message(text: [*]const u8, len: u32) void;
extern "prober_v1_net" fn dial(url: [*]const u8, len: u32, timeout_ms: i32) i32;
extern "prober_v1_net" fn read(conn: i32, buf: [*]u8, cap: u32, timeout_ms: i32) i32;

export fn probe() i32 {
    var first: [1]u8 = undefined;
    const conn = dial("", 0, -1); // the target, until the deadline
    const greeted = conn >= 0 and read(conn, &first, 1, -1) == 1;
    const text: []const u8 = if (greeted) "a greeting" else "no greeting";
    message(text.ptr, text.len);
    return if (greeted) 0 else 2; // Success, Failure
}
