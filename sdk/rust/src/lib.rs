//! The SDK for plugins in Rust.
//!
//! A plugin is a function, which [`plugin!`] exports from the guest:
//!
//! ```ignore
//! use prober::{Outcome, Request};
//!
//! prober::plugin!(probe);
//!
//! fn probe(_: &Request) -> prober::Result {
//!     match prober::net::dial_target() {
//!         Ok(_) => Ok(Outcome::success("connected")),
//!         Err(e) => Ok(Outcome::failure(e)),
//!     }
//! }
//! ```
//!
//! The outcome is the verdict about the target. An error means that there is no verdict, and
//! the host retries the attempt. The crate needs only the standard library, and builds with rustc 1.63
//! for wasm32-wasi (wasm32-wasip1 of later compilers) and wasm32-unknown-unknown.

pub mod config;
pub mod digest;
pub mod dns;
pub mod files;
mod host;
pub mod http;
pub mod icmp;
pub mod json;
pub mod kv;
pub mod net;
mod sha512;
pub mod time;

use std::fmt;
use std::io;
use std::time::Duration;

/// The return value of a probe function.
pub type Result<T = Outcome> = std::result::Result<T, Error>;

/// The reason why there is no verdict.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub fn new(text: impl fmt::Display) -> Error {
        Error(text.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::new(e)
    }
}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::new(text)
    }
}

/// The four results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success = 0,
    /// Healthy, with a warning.
    Warning = 1,
    Failure = 2,
    /// Unknown. It counts as a Failure and is not retried.
    Unknown = 3,
}

/// A result with its message and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub message: String,
    pub metrics: Vec<Metric>,
    /// A JSON object, or empty.
    pub details: String,
    /// The reason of a failure, such as "http_status", or empty. docs/abi.md has the list.
    pub reason: String,
}

/// A measured number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    /// The name, which must match `[a-z_][a-z0-9_]*`.
    pub name: String,
    pub unit: String,
    pub value: f64,
    pub labels: Vec<(String, String)>,
}

impl Outcome {
    pub fn new(verdict: Verdict, message: impl fmt::Display) -> Outcome {
        Outcome { verdict, message: message.to_string(), metrics: Vec::new(), details: String::new(), reason: String::new() }
    }

    pub fn success(message: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Success, message)
    }

    pub fn warning(message: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Warning, message)
    }

    pub fn failure(message: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Failure, message)
    }

    pub fn unknown(message: impl fmt::Display) -> Outcome {
        Outcome::new(Verdict::Unknown, message)
    }

    /// Adds a metric. The unit may be "".
    pub fn metric(mut self, name: &str, unit: &str, value: f64) -> Outcome {
        self.metrics.push(Metric { name: name.into(), unit: unit.into(), value, labels: Vec::new() });
        self
    }

    /// Sets the details, a JSON object for programs.
    pub fn details(mut self, json: impl Into<String>) -> Outcome {
        self.details = json.into();
        self
    }

    /// Sets the reason of a failure.
    pub fn reason(mut self, reason: &str) -> Outcome {
        self.reason = reason.into();
        self
    }

    fn to_json(&self) -> String {
        let mut doc = format!("{{\"message\":{}", json::quote(&self.message));
        let finite = self.metrics.iter().filter(|m| m.value.is_finite());
        let metrics: Vec<String> = finite.map(Metric::to_json).collect();
        doc += &format!(",\"metrics\":[{}]", metrics.join(","));
        if !self.details.is_empty() {
            doc += &format!(",\"details\":{}", self.details);
        }
        if !self.reason.is_empty() {
            doc += &format!(",\"reason\":{}", json::quote(&self.reason));
        }
        doc + "}"
    }
}

impl Metric {
    fn to_json(&self) -> String {
        let labels = json::object(self.labels.iter().map(|(name, value)| (name.as_str(), json::quote(value))));
        let value = format!("{:e}", self.value);
        json::object([
            ("name", json::quote(&self.name)),
            ("unit", json::quote(&self.unit)),
            ("value", value),
            ("labels", labels),
        ])
    }
}

/// The request of one attempt.
pub struct Request {
    doc: String,
}

impl Request {
    /// Reads the request. In a function that validates a config it has only the target and the config.
    pub fn read() -> Result<Request> {
        let doc = pull(2048, |buf, cap| unsafe { host::request_read(buf, cap) })?;
        Ok(Request { doc: String::from_utf8_lossy(&doc).into_owned() })
    }

    /// The request as JSON.
    pub fn json(&self) -> &str {
        &self.doc
    }

    /// Returns the value at a dotted path, or "".
    pub fn text(&self, path: &str) -> String {
        json::lookup(&self.doc, path).map(json::text).unwrap_or_default()
    }

    fn number(&self, path: &str) -> u64 {
        self.text(path).parse().unwrap_or_default()
    }

    /// "liveness", "readiness" or "startup".
    pub fn kind(&self) -> String {
        self.text("probe.kind")
    }

    pub fn attempt(&self) -> u64 {
        self.number("probe.attempt")
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.number("probe.timeoutMs"))
    }

    pub fn period(&self) -> Duration {
        Duration::from_millis(self.number("probe.periodMs"))
    }

    /// The host of the target, a name or an address.
    pub fn host(&self) -> String {
        self.text("target.host")
    }

    pub fn port(&self) -> u16 {
        self.number("target.port") as u16
    }

    /// The path of the target's unix socket, "" if there is none.
    pub fn unix(&self) -> String {
        self.text("target.unix")
    }

    /// Reports whether the plugin has a capability, such as "kv". Ask it before using one that is optional in the
    /// manifest.
    pub fn has(&self, feature: &str) -> bool {
        let features = json::lookup(&self.doc, "host.features").unwrap_or_default();
        json::items(features).into_iter().any(|f| json::text(f) == feature)
    }
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warn = 2,
    Error = 3,
}

/// Writes a line to the log of the host.
pub fn log(level: Level, text: impl fmt::Display) {
    if unsafe { host::log_enabled(level as i32) } != 0 {
        let text = text.to_string();
        unsafe { host::log(level as i32, text.as_ptr(), text.len()) }
    }
}

/// Sets the message of an attempt that reaches its deadline, such as what the probe waits for. An outcome replaces
/// it, and "" removes it.
pub fn progress(text: &str) {
    unsafe { host::message(text.as_ptr(), text.len()) }
}

/// Returns the remaining time, or None without a deadline.
pub fn deadline() -> Option<Duration> {
    match unsafe { host::deadline_ms() } {
        i64::MAX => None,
        left => Some(Duration::from_millis(left.max(0) as u64)),
    }
}

/// Fills a buffer with random bytes.
pub fn random(buf: &mut [u8]) -> io::Result<()> {
    match unsafe { host::random_get(buf.as_mut_ptr(), buf.len()) } {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "no randomness")),
    }
}

/// Exports the functions of a guest: `plugin!(probe)`, or `plugin!(probe, validate)` with a
/// function `fn() -> prober::Result<()>` for checks that the schema of the manifest cannot
/// express.
#[macro_export]
macro_rules! plugin {
    ($probe:path) => {
        #[export_name = "probe"]
        pub extern "C" fn __prober_probe() -> i32 {
            $crate::run($probe)
        }
    };
    ($probe:path, $validate:path) => {
        $crate::plugin!($probe);

        #[export_name = "validate_config"]
        pub extern "C" fn __prober_validate_config() -> i32 {
            $crate::run_validate($validate)
        }
    };
}

/// Carries out one attempt; [`plugin!`] calls it.
#[doc(hidden)]
pub fn run(probe: fn(&Request) -> Result) -> i32 {
    log_panics();
    match Request::read().and_then(|r| probe(&r)).and_then(answer) {
        Ok(verdict) => verdict as i32,
        Err(e) => fail(&e),
    }
}

/// Checks a config; [`plugin!`] calls it.
#[doc(hidden)]
pub fn run_validate(validate: fn() -> Result<()>) -> i32 {
    log_panics();
    match validate() {
        Ok(()) => 0,
        Err(e) => fail(&e),
    }
}

// A panic ends in a trap, which has no message.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        unsafe { host::log(Level::Error as i32, text.as_ptr(), text.len()) }
    }));
}

fn fail(e: &Error) -> i32 {
    unsafe { host::message(e.0.as_ptr(), e.0.len()) }
    -1
}

fn answer(out: Outcome) -> Result<Verdict> {
    if !out.details.is_empty() || !out.reason.is_empty() || out.metrics.iter().any(|m| !m.labels.is_empty()) {
        let doc = out.to_json();
        check(unsafe { host::result_write(doc.as_ptr(), doc.len()) })?;
        return Ok(out.verdict);
    }
    unsafe { host::message(out.message.as_ptr(), out.message.len()) }
    for m in out.metrics.iter().filter(|m| m.value.is_finite()) {
        let (name, unit) = (m.name.as_bytes(), m.unit.as_bytes());
        check(unsafe { host::metric(name.as_ptr(), name.len(), unit.as_ptr(), unit.len(), m.value) })?;
    }
    Ok(out.verdict)
}

/// Returns the result of a host call that fills a buffer.
fn pull(size: usize, call: impl Fn(*mut u8, usize) -> i32) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; size];
    loop {
        let n = check(call(buf.as_mut_ptr(), buf.len()))?;
        if n <= buf.len() {
            buf.truncate(n);
            return Ok(buf);
        }
        buf.resize(n, 0);
    }
}

/// Returns the result of a host call, or its error.
fn check(code: i32) -> io::Result<usize> {
    if code >= 0 {
        return Ok(code as usize);
    }
    let mut text = [0; 512];
    let n = unsafe { host::last_error(text.as_mut_ptr(), text.len()) };
    let text = match usize::try_from(n) {
        Ok(n) if 0 < n && n <= text.len() => String::from_utf8_lossy(&text[..n]).into_owned(),
        _ => format!("errno {}", -code),
    };
    Err(io::Error::new(kind(-code), text))
}

/// The numbers are those of WASI preview 1.
fn kind(errno: i32) -> io::ErrorKind {
    use io::ErrorKind::*;
    match errno {
        2 | 63 => PermissionDenied,
        6 => WouldBlock,
        14 => ConnectionRefused,
        15 => ConnectionReset,
        28 => InvalidInput,
        44 => NotFound,
        58 => Unsupported,
        64 => BrokenPipe,
        65 => InvalidData,
        73 => TimedOut,
        _ => Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_written_as_json() {
        let mut out = Outcome::warning("a \"slow\" one").metric("seconds", "s", 0.25);
        out.metrics[0].labels.push(("db".into(), "main".into()));
        let doc = out.to_json();
        assert_eq!(json::lookup(&doc, "message").map(json::text).unwrap(), "a \"slow\" one");
        assert_eq!(json::lookup(&doc, "metrics.0.value").unwrap().parse(), Ok(0.25));
        assert_eq!(json::lookup(&doc, "metrics.0.labels.db"), Some("\"main\""));
    }

    #[test]
    fn a_metric_that_json_cannot_carry_is_left_out() {
        let doc = Outcome::success("").metric("nan", "", f64::NAN).metric("one", "", 1.0).to_json();
        assert_eq!(json::lookup(&doc, "metrics.0.name"), Some("\"one\""));
        assert_eq!(json::lookup(&doc, "metrics.1"), None);
    }

    #[test]
    fn a_host_call_that_fails_is_an_error_of_its_kind() {
        assert_eq!(net::dial_target().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
