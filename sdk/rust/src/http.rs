//! HTTP requests by the host. The manifest requests the capability "http".

use crate::{check, host, json, pull};
use std::io::{self, Read};
use std::time::Duration;

/// A request. A URL without a host ("http:///healthz") is for the target.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// "GET" if empty.
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The maximum number of redirects to follow, at most the limit `redirects` of the manifest.
    pub redirects: u32,
    /// The timeout; None means until the deadline.
    pub timeout: Option<Duration>,
    /// TLS options as JSON, such as {"verify":"none"} or `(&tls).into()` of a [`crate::net::Tls`], or "".
    pub tls: String,
    /// Offer HTTP/2 over TLS.
    pub http2: bool,
    /// The encoding of the body that the host decodes: "gzip", "deflate" or "". Send Accept-Encoding too.
    pub decompress: String,
    /// "4", "6", "4,6" or "6,4"; "" is any address.
    pub ip_family: String,
    /// The source address, one of the host's addresses.
    pub source_address: String,
    /// "http://HOST:PORT", perhaps with a user and password. It must be granted too.
    pub proxy: String,
    /// The headers of the CONNECT request to the proxy.
    pub proxy_headers: Vec<(String, String)>,
    /// Further fields of an HTTPRequest that this version does not have: names and their values as JSON.
    pub options: Vec<(&'static str, String)>,
}

/// A response, and the reader of its body. It is closed when it is dropped.
#[derive(Debug)]
pub struct Response {
    handle: i32,
    head: String,
}

/// Gets a URL.
pub fn get(url: &str) -> io::Result<Response> {
    Request { url: url.into(), ..Request::default() }.send()
}

impl Request {
    /// Makes the request, and returns after the response header was received.
    pub fn send(&self) -> io::Result<Response> {
        let doc = self.to_json();
        let handle = check(unsafe { host::http_do(doc.as_ptr(), doc.len(), self.body.as_ptr(), self.body.len()) })?;
        let mut answer = Response { handle: handle as i32, head: String::new() };
        let head = pull(1024, |buf, cap| unsafe { host::http_head(answer.handle, buf, cap) })?;
        answer.head = String::from_utf8_lossy(&head).into_owned();
        Ok(answer)
    }

    fn to_json(&self) -> String {
        let mut fields = vec![("url", json::quote(&self.url)), ("headers", object_of(&self.headers))];
        let texts = [
            ("method", &self.method),
            ("decompress", &self.decompress),
            ("ipFamily", &self.ip_family),
            ("sourceAddress", &self.source_address),
            ("proxy", &self.proxy),
        ];
        fields.extend(texts.iter().filter(|(_, v)| !v.is_empty()).map(|(name, v)| (*name, json::quote(v))));
        if self.http2 {
            fields.push(("http2", "true".into()));
        }
        if !self.proxy_headers.is_empty() {
            fields.push(("proxyHeaders", object_of(&self.proxy_headers)));
        }
        if self.redirects > 0 {
            fields.push(("redirects", self.redirects.to_string()));
        }
        if let Some(timeout) = self.timeout {
            fields.push(("timeoutMs", timeout.as_millis().max(1).to_string()));
        }
        if !self.tls.is_empty() {
            fields.push(("tls", self.tls.clone()));
        }
        fields.extend(self.options.iter().cloned());
        json::object(fields)
    }
}

fn object_of(fields: &[(String, String)]) -> String {
    json::object(fields.iter().map(|(name, value)| (name.as_str(), json::quote(value))))
}

impl Response {
    pub fn status(&self) -> u16 {
        json::lookup(&self.head, "status").and_then(|s| s.parse().ok()).unwrap_or_default()
    }

    /// Returns the value of a header, by its name in lower case. Several lines are joined by ", ".
    pub fn header(&self, name: &str) -> Option<String> {
        json::lookup(json::lookup(&self.head, "headers")?, name).map(json::text)
    }

    /// Returns the lines of a header, by its name in lower case, such as of "set-cookie".
    pub fn headers(&self, name: &str) -> Vec<String> {
        let repeated = json::items(json::lookup(&self.head, "repeated").unwrap_or_default());
        let field = |line: &str, name: &str| json::lookup(line, name).map(json::text).unwrap_or_default();
        let lines: Vec<String> = repeated.into_iter().filter(|l| field(l, "name") == name).map(|l| field(l, "value")).collect();
        match lines.is_empty() {
            true => self.header(name).into_iter().collect(),
            false => lines,
        }
    }

    /// Returns the head as JSON: status, headers, timings, certificates.
    pub fn head(&self) -> &str {
        &self.head
    }
}

impl Read for Response {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        check(unsafe { host::http_read(self.handle, buf.as_mut_ptr(), buf.len(), -1) })
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        unsafe { host::http_close(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_json() {
        let mut r = Request { url: "http:///\"x".into(), ..Request::default() };
        assert_eq!(r.to_json(), r#"{"url":"http:///\"x","headers":{}}"#);
        r.headers.push(("Accept".into(), "*/*".into()));
        r.timeout = Some(Duration::from_millis(20));
        r.http2 = true;
        assert_eq!(json::lookup(&r.to_json(), "http2"), Some("true"));
        assert_eq!(json::lookup(&r.to_json(), "headers.Accept"), Some("\"*/*\""));
        assert_eq!(json::lookup(&r.to_json(), "timeoutMs"), Some("20"));
    }

    #[test]
    fn lines_of_a_header_are_apart() {
        let head = r#"{"headers":{"set-cookie":"a=1, b=2","x":"1, 2"},"repeated":[{"name":"set-cookie","value":"a=1"},{"name":"set-cookie","value":"b=2"}]}"#;
        let r = Response { handle: 0, head: head.into() };
        assert_eq!(r.headers("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(r.headers("x"), ["1, 2"]);
        assert!(r.headers("none").is_empty());
    }
}
