//! Connections that the host dials, if the grants of the operator allow it. The manifest
//! requests the capability "net".

use crate::{check, host, pull};
use std::convert::TryFrom;
use std::io::{self, Read, Write};
use std::time::Duration;

/// A connection. It is closed when it is dropped. A read or write ends at the deadline, and
/// the attempt with it.
#[derive(Debug)]
pub struct Conn {
    handle: i32,
    timeout: Option<Duration>,
}

/// Connects to the target.
pub fn dial_target() -> io::Result<Conn> {
    dial("", None)
}

/// Connects to "tcp://host:port", "udp://…", "tls://…" or "unix:///path", within the timeout
/// or, without one, until the deadline.
pub fn dial(url: &str, timeout: Option<Duration>) -> io::Result<Conn> {
    let handle = check(unsafe { host::net_dial(url.as_ptr(), url.len(), millis(timeout)) })?;
    Ok(Conn { handle: handle as i32, timeout: None })
}

impl Conn {
    /// Sets the timeout of a read or write. None, the default, means until the deadline;
    /// zero does not wait. After the timeout, a read or write fails with WouldBlock.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Starts TLS, by the host. options are JSON such as
    /// {"serverName":"db","verify":"none"}, or "".
    pub fn start_tls(&mut self, options: &str) -> io::Result<()> {
        check(unsafe { host::net_starttls(self.handle, options.as_ptr(), options.len()) }).map(|_| ())
    }

    /// Returns a description of the connection as JSON: addresses, timings, certificates.
    pub fn info(&self) -> io::Result<String> {
        let doc = pull(512, |buf, cap| unsafe { host::net_info(self.handle, buf, cap) })?;
        Ok(String::from_utf8_lossy(&doc).into_owned())
    }
}

/// Waits until one of the connections has data to read, and returns its index.
pub fn poll(conns: &[&Conn], timeout: Option<Duration>) -> io::Result<usize> {
    let handles: Vec<i32> = conns.iter().map(|c| c.handle).collect();
    check(unsafe { host::net_poll(handles.as_ptr(), handles.len(), millis(timeout)) })
}

impl Read for Conn {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        check(unsafe { host::net_read(self.handle, buf.as_mut_ptr(), buf.len(), millis(self.timeout)) })
    }
}

impl Write for Conn {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        check(unsafe { host::net_write(self.handle, data.as_ptr(), data.len(), millis(self.timeout)) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        unsafe { host::net_close(self.handle) };
    }
}

/// Returns a timeout for the host: -1 means until the deadline.
pub(crate) fn millis(timeout: Option<Duration>) -> i32 {
    match timeout {
        None => -1,
        Some(t) if t > Duration::from_secs(0) => i32::try_from(t.as_millis()).unwrap_or(i32::MAX).max(1),
        Some(_) => 0,
    }
}
