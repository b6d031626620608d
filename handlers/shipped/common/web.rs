//! Requests of HTTP and the rules of their responses, as the fields of a config describe them.

use crate::config::{tls_options, Config};
use crate::header::{self, HeaderRule};
use crate::path::{self, PathRule};
use crate::regexp::{lossy, Regexp};
use crate::{ip_family, shorten, Findings};
use prober::{http, json, Request, Result};
use std::io::Read;

/// The most bytes of a body that rules can check.
const MAX_CHECKED: usize = 16 << 20;

/// The most bytes of a body that are shown.
const MAX_SHOWN: usize = 256;

/// Returns a request with the options of its connection: TLS, addresses, proxy, version of HTTP.
pub fn connection(config: &Config) -> http::Request {
    let mut r = http::Request { tls: tls_options(config), ..Default::default() };
    r.options.push(("ipFamily", json::quote(ip_family(config))));
    for (option, field) in [("sourceAddress", "sourceIpAddress"), ("proxy", "proxyUrl")] {
        let value = config.text(field);
        if !value.is_empty() {
            r.options.push((option, json::quote(&value)));
        }
    }
    if let Some(headers) = config.get("proxyConnectHeader") {
        r.options.push(("proxyHeaders", headers.into()));
    }
    if config.flag("enableHttp2") {
        r.options.push(("http2", "true".into()));
    }
    r
}

/// Adds the headers of a config, its credentials, and those that every request has.
pub fn add_headers(r: &mut http::Request, request: &Request, config: &Config) {
    r.headers.extend(config.pairs("headers"));
    let credentials = authorization(config);
    if !credentials.is_empty() {
        r.headers.push(("Authorization".into(), credentials));
    }
    add_user_agent(r, request);
    let compression = config.text("compression");
    if !compression.is_empty() && !has_header(r, "Accept-Encoding") {
        r.headers.push(("Accept-Encoding".into(), compression.clone()));
    }
    if compression == "gzip" || compression == "deflate" {
        r.options.push(("decompress", json::quote(&compression)));
    }
}

pub fn add_user_agent(r: &mut http::Request, request: &Request) {
    if !has_header(r, "User-Agent") {
        r.headers.push(("User-Agent".into(), format!("prober/{}", request.text("host.version"))));
    }
}

pub fn has_header(r: &http::Request, name: &str) -> bool {
    r.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

fn authorization(config: &Config) -> String {
    if let Some(basic) = config.get("basicAuth").map(Config) {
        return basic_auth(&basic.text("username"), &basic.text("password"));
    }
    let token = config.text("bearerToken");
    if !token.is_empty() {
        return "Bearer ".to_owned() + &token;
    }
    match config.get("authorization").map(Config) {
        Some(a) => format!("{} {}", a.text("type"), a.text("credentials")),
        None => String::new(),
    }
}

pub fn basic_auth(user: &str, password: &str) -> String {
    "Basic ".to_owned() + &prober::digest::to_base64(format!("{}:{}", user, password).as_bytes())
}

/// Returns text as part of a form or query.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(b as char),
            _ => out += &format!("%{:02X}", b),
        }
    }
    out
}

/// Returns a form as a body of the type application/x-www-form-urlencoded.
pub fn form(fields: &[(String, String)]) -> String {
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Returns a URL for messages. Users, passwords and queries, which can have tokens, are left out.
pub fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#'].as_slice()).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    shorten(&format!("{}://{}{}", scheme, host, path), 200)
}

/// What a response must be. The expressions are compiled.
pub struct Rules {
    statuses: Vec<u16>, // empty for 2xx
    headers: Vec<HeaderRule>,
    body_fails: Vec<Regexp>,
    body_needs: Vec<Regexp>,
    paths: Vec<PathRule>,
    most: u64, // bytes of the body; 0 for no limit
}

impl Rules {
    pub fn of(config: &Config) -> Result<Rules> {
        Ok(Rules {
            statuses: config.get("validStatusCodes").map(json::items).unwrap_or_default().iter().filter_map(|s| s.parse().ok()).collect(),
            headers: header::rules(config)?,
            body_fails: config.regexps("failIfBodyMatchesRegexp")?,
            body_needs: config.regexps("failIfBodyNotMatchesRegexp")?,
            paths: path::rules(config)?,
            most: config.size("bodySizeLimit")?,
        })
    }

    /// Reports whether a rule needs the body.
    pub fn body(&self) -> bool {
        !(self.body_fails.is_empty() && self.body_needs.is_empty() && self.paths.is_empty())
    }

    /// Checks the status. after is from where the response came, or "".
    pub fn check_status(&self, findings: &mut Findings, status: u16, after: &str) {
        let valid = if self.statuses.is_empty() { (200..300).contains(&status) } else { self.statuses.contains(&status) };
        if valid {
            return;
        }
        let codes: Vec<String> = self.statuses.iter().map(u16::to_string).collect();
        let want = if codes.is_empty() { "2xx".into() } else { codes.join(" or ") };
        findings.fail_for("http_status", format!("HTTP status {}, want {}{}", status, want, after));
    }

    /// Checks the headers of a head of the host. It returns false if one failed.
    pub fn check_headers(&self, findings: &mut Findings, head: &str) -> bool {
        header::check(findings, &self.headers, head)
    }

    /// Checks the body. It returns false if an expression failed.
    pub fn check_body(&self, findings: &mut Findings, text: &str) -> bool {
        let mut matched = true;
        if let Some(r) = self.body_fails.iter().find(|r| r.matches(text)) {
            findings.fail_for("body", format!("the body matches {:?}", r.text));
            matched = false;
        } else if let Some(r) = self.body_needs.iter().find(|r| !r.matches(text)) {
            let seen = findings.secrets.excerpt(text.trim());
            findings.fail_for("body", format!("the body does not match {:?}: {:?}", r.text, seen));
            matched = false;
        }
        path::check(findings, &self.paths, text);
        matched
    }

    /// Reads the body, and keeps it if keep is set. One that is too long or broken off is a failure.
    pub fn read_body(&self, findings: &mut Findings, response: &mut http::Response, keep: bool) -> Body {
        let most = if self.most == 0 { u64::MAX } else { self.most };
        let mut body = Body::default();
        let mut buf = [0; 16 << 10];
        loop {
            match response.read(&mut buf) {
                Ok(0) => return body,
                Ok(n) => {
                    body.length += n as u64;
                    findings.show(&buf[..n]);
                    if body.length > most {
                        body.length = most;
                        findings.fail_for("body", format!("the body is longer than {} bytes", most));
                        return body;
                    }
                    if keep && body.data.len() + n > MAX_CHECKED {
                        findings.fail_for("body", format!("the body is longer than {} bytes, the most that can be checked", MAX_CHECKED));
                        return body;
                    }
                    if keep {
                        body.data.extend_from_slice(&buf[..n]);
                    }
                }
                Err(e) => {
                    findings.fail(format!("reading the body: {}", e));
                    return body;
                }
            }
        }
    }
}

/// The body of a response.
#[derive(Default)]
pub struct Body {
    pub data: Vec<u8>, // if it was kept
    pub length: u64,   // in bytes, without its compression
}

impl Findings {
    /// Adds what the target sent to what is shown, if the operator allows that.
    fn show(&mut self, data: &[u8]) {
        if self.shows && self.body.len() < MAX_SHOWN {
            self.body += &lossy(&data[..data.len().min(MAX_SHOWN - self.body.len())]);
        }
    }
}
