//! Connections that the host dials, if the grants of the operator allow it. The manifest
//! requests the capability "net".

use crate::{check, host, json, pull};
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

/// Options of TLS: of [`Conn::start_tls`], of [`Options`] and of an HTTP request. `(&tls).into()` is their JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// Sent, and checked in the certificate; by default the dialed host.
    pub server_name: String,
    /// The protocols to offer; must be empty in an HTTP request.
    pub alpn: Vec<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Root certificates in PEM, instead of the system's.
    pub ca: String,
    /// The name of credentials in prober.yaml, such as a client certificate, which the operator must allow.
    pub credentials: String,
    /// "TLS10", "TLS11", "TLS12" or "TLS13".
    pub min_version: String,
    pub max_version: String,
}

impl Tls {
    /// Returns the options that are set, with their names in the documents of the host. ca is not among them.
    fn named(&self) -> Vec<(&'static str, &str)> {
        let mut set = vec![
            ("serverName", self.server_name.as_str()),
            ("verify", if self.insecure { "none" } else { "" }),
            ("credentials", &self.credentials),
            ("minVersion", &self.min_version),
            ("maxVersion", &self.max_version),
        ];
        set.retain(|(_, value)| !value.is_empty());
        set
    }
}

impl From<&Tls> for String {
    fn from(tls: &Tls) -> String {
        let mut fields: Vec<(&str, String)> = tls.named().into_iter().map(|(name, value)| (name, json::quote(value))).collect();
        if !tls.ca.is_empty() {
            fields.push(("ca", json::quote(&tls.ca)));
        }
        if !tls.alpn.is_empty() {
            let protocols: Vec<String> = tls.alpn.iter().map(|p| json::quote(p)).collect();
            fields.push(("alpn", format!("[{}]", protocols.join(","))));
        }
        json::object(fields)
    }
}

/// Options of a dial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// "4", "6", "4,6" or "6,4"; "" is any address.
    pub ip_family: String,
    /// The source address, one of the host's addresses.
    pub source_address: String,
    /// For "tls://". Its ca must be empty: use [`Conn::start_tls`] for that.
    pub tls: Tls,
}

impl Options {
    /// Returns url with the options in its query.
    fn add_to(&self, url: &str) -> io::Result<String> {
        if !self.tls.ca.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "tls: ca: dial tcp://, and call start_tls"));
        }
        let mut set = vec![("ipFamily", self.ip_family.as_str()), ("sourceAddress", &self.source_address)];
        set.retain(|(_, value)| !value.is_empty());
        set.extend(self.tls.named());
        set.extend(self.tls.alpn.iter().map(|p| ("alpn", p.as_str())));
        let query: Vec<String> = set.into_iter().map(|(name, value)| format!("{}={}", name, escape(value))).collect();
        let mark = if url.contains('?') { '&' } else { '?' };
        Ok(if query.is_empty() { url.into() } else { format!("{}{}{}", url, mark, query.join("&")) })
    }
}

/// Escapes a value for the query of a URL.
fn escape(text: &str) -> String {
    text.bytes().map(|b| if b.is_ascii_alphanumeric() || b"-._~".contains(&b) { (b as char).to_string() } else { format!("%{:02X}", b) }).collect()
}

/// Connects to a URL as [`dial`] does, with options. The target is "tcp://" or "tls://".
pub fn dial_with(url: &str, options: &Options, timeout: Option<Duration>) -> io::Result<Conn> {
    dial(&options.add_to(url)?, timeout)
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

    /// Starts TLS, by the host. options are a [`Tls`], JSON such as
    /// {"serverName":"db","verify":"none"}, or "".
    pub fn start_tls(&mut self, options: impl Into<String>) -> io::Result<()> {
        let options = options.into();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_in_the_query() {
        let tls = Tls { server_name: "d b".into(), alpn: vec!["h2".into(), "http/1.1".into()], insecure: true, ..Tls::default() };
        let mut options = Options { ip_family: "4,6".into(), tls, ..Options::default() };
        assert_eq!(
            options.add_to("tls://db:1").unwrap(),
            "tls://db:1?ipFamily=4%2C6&serverName=d%20b&verify=none&alpn=h2&alpn=http%2F1.1"
        );
        assert_eq!(
            options.add_to("tls://db:1?minVersion=TLS13").unwrap(),
            "tls://db:1?minVersion=TLS13&ipFamily=4%2C6&serverName=d%20b&verify=none&alpn=h2&alpn=http%2F1.1"
        );
        assert_eq!(String::from(&options.tls), r#"{"serverName":"d b","verify":"none","alpn":["h2","http/1.1"]}"#);
        options.tls.ca = "PEM".into();
        assert!(options.add_to("tls://").is_err());
        assert_eq!(Options::default().add_to("tcp://").unwrap(), "tcp://");
        assert_eq!(String::from(&Tls::default()), "{}");
    }
}
