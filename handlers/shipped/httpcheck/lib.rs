//! The plugin httpcheck: everything that blackbox_exporter's http module checks, with its metrics.
//! Read probe first: it makes the request, and then checks the response in the order of that module.

use common::config::{tls_options, Budget, Config};
use common::regexp::{lossy, Regexp};
use common::{ip_family, shorten, Findings};
use prober::{http, json, Outcome, Request, Result};
use std::io::Read;
use std::time::{Duration, Instant};

mod header;
mod path;

use header::HeaderRule;
use path::PathRule;

prober::plugin!(probe, validate);

/// The most redirects that are followed, as blackbox_exporter does.
const MAX_REDIRECTS: u32 = 10;

/// The most bytes of a body that rules can check.
const MAX_CHECKED: usize = 16 << 20;

/// The most bytes of a body that are shown.
const MAX_SHOWN: usize = 256;

/// The rules of a config that have expressions, compiled.
struct Rules {
    headers: Vec<HeaderRule>,
    body_fails: Vec<Regexp>,
    body_needs: Vec<Regexp>,
    paths: Vec<PathRule>,
}

impl Rules {
    fn of(config: &Config) -> Result<Rules> {
        Ok(Rules {
            headers: header::rules(config)?,
            body_fails: config.regexps("failIfBodyMatchesRegexp")?,
            body_needs: config.regexps("failIfBodyNotMatchesRegexp")?,
            paths: path::rules(config)?,
        })
    }

    fn body(&self) -> bool {
        !(self.body_fails.is_empty() && self.body_needs.is_empty() && self.paths.is_empty())
    }
}

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    Rules::of(&config)?;
    config.size("bodySizeLimit")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let rules = Rules::of(&config)?;
    let mut findings = Findings::default();
    let start = Instant::now();
    let response = match to_send(request, &config)?.send() {
        Ok(response) => response,
        Err(e) => {
            without_response(&mut findings, request);
            findings.fail(e.to_string());
            return Ok(findings.outcome(String::new()));
        }
    };
    let mut exchange = Exchange { config: &config, rules: &rules, findings, response, body: Vec::new(), shows: shows_output(request), length: 0 };
    exchange.check()?;
    let took = start.elapsed();
    common::check_latency(&mut exchange.findings, &config, took)?;
    Ok(exchange.outcome(took))
}

/// Returns the request that the config describes.
fn to_send(request: &Request, config: &Config) -> Result<http::Request> {
    let mut r = http::Request { url: url(config), method: config.text("method"), body: config.text("body").into_bytes(), ..Default::default() };
    if config.flag("followRedirects") {
        r.redirects = MAX_REDIRECTS;
    }
    r.timeout = Budget::of(config)?.left();
    r.tls = tls_options(config);
    r.headers = config.pairs("headers");
    let credentials = authorization(config);
    let has = |r: &http::Request, name: &str| r.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !credentials.is_empty() {
        r.headers.push(("Authorization".into(), credentials));
    }
    if !has(&r, "User-Agent") {
        r.headers.push(("User-Agent".into(), format!("prober/{}", request.text("host.version"))));
    }
    let compression = config.text("compression");
    if !compression.is_empty() && !has(&r, "Accept-Encoding") {
        r.headers.push(("Accept-Encoding".into(), compression.clone()));
    }
    if compression == "gzip" || compression == "deflate" {
        r.options.push(("decompress", json::quote(&compression)));
    }
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
    Ok(r)
}

/// Reports whether the operator lets probes show what targets send.
fn shows_output(request: &Request) -> bool {
    let features = json::lookup(request.json(), "host.features").map(json::items).unwrap_or_default();
    features.into_iter().any(|f| json::text(f) == "output")
}

/// Returns the URL to ask for. A path alone is one of the target, over HTTP.
fn url(config: &Config) -> String {
    let url = config.text("url");
    if url.starts_with('/') {
        return "http://".to_owned() + &url;
    }
    url
}

fn authorization(config: &Config) -> String {
    if let Some(basic) = config.get("basicAuth").map(Config) {
        let pair = format!("{}:{}", basic.text("username"), basic.text("password"));
        return "Basic ".to_owned() + &prober::digest::to_base64(pair.as_bytes());
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

/// Adds the metrics of an exchange without a response, which are 0.
fn without_response(findings: &mut Findings, request: &Request) {
    common::unreached_metrics(findings, request);
    for phase in ["resolve", "connect", "tls", "processing", "transfer"] {
        findings.labelled("http_duration_seconds", "s", 0.0, &[("phase", phase)]);
    }
    for name in ["http_status_code", "http_content_length", "http_uncompressed_body_length", "http_redirects", "http_ssl", "http_version", "failed_due_to_regex"] {
        findings.metric(name, "", 0.0);
    }
}

/// A response while it is checked.
struct Exchange<'a> {
    config: &'a Config<'a>,
    rules: &'a Rules,
    findings: Findings,
    response: http::Response,
    body: Vec<u8>, // if a rule needs it
    shows: bool,   // whether the operator lets probes show what targets send
    length: u64,   // of the body, without its compression
}

impl Exchange<'_> {
    fn head(&self, path: &str) -> Option<&str> {
        json::lookup(self.response.head(), path)
    }

    fn number(&self, path: &str) -> f64 {
        self.head(path).and_then(|n| n.parse().ok()).unwrap_or_default()
    }

    fn check(&mut self) -> Result<()> {
        self.check_status();
        let failed_header = self.findings.passed() && !header::check(&mut self.findings, &self.rules.headers, self.response.head());
        let needs_body = self.findings.passed() && self.rules.body();
        let start = Instant::now();
        if needs_body || !self.redirects_ended() {
            self.read_body(needs_body)?;
        }
        let transfer = start.elapsed();
        let failed_body = needs_body && !self.check_body();
        self.check_version();
        self.check_tls()?;
        self.report(transfer, failed_header || failed_body);
        Ok(())
    }

    fn status_is_valid(&self) -> bool {
        let status = f64::from(self.response.status());
        let valid: Vec<&str> = self.config.get("validStatusCodes").map(json::items).unwrap_or_default();
        if valid.is_empty() {
            return (200.0..300.0).contains(&status);
        }
        valid.iter().any(|code| code.parse() == Ok(status))
    }

    fn check_status(&mut self) {
        if self.status_is_valid() {
            return;
        }
        let valid: Vec<&str> = self.config.get("validStatusCodes").map(json::items).unwrap_or_default();
        let want = if valid.is_empty() { "2xx".into() } else { valid.join(" or ") };
        let why = format!("HTTP status {}, want {}{}", self.response.status(), want, self.after_redirects());
        self.findings.fail_for("http_status", why);
    }

    /// Returns from where the response came, if redirects led there. Users, passwords and queries, which can have
    /// tokens, are left out.
    fn after_redirects(&self) -> String {
        let url = self.head("url").map(json::text).unwrap_or_default();
        let url = url.split(['?', '#'].as_slice()).next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        match self.number("redirects") as u32 {
            0 => String::new(),
            n => format!(", after redirect {} to {}", n, shorten(&format!("{}://{}{}", scheme, host, path), 200)),
        }
    }

    /// Reports whether the response is a redirect that was not followed. blackbox_exporter has closed
    /// its body then.
    fn redirects_ended(&self) -> bool {
        let redirect = matches!(self.response.status(), 301 | 302 | 303 | 307 | 308);
        redirect && self.response.header("location").is_some()
    }

    /// Reads the body, and keeps it if the rules need it. One that is too long or broken off is a
    /// failure.
    fn read_body(&mut self, keep: bool) -> Result<()> {
        let most = match self.config.size("bodySizeLimit")? {
            0 => u64::MAX,
            most => most,
        };
        let mut buf = [0; 16 << 10];
        loop {
            match self.response.read(&mut buf) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    self.length += n as u64;
                    if self.shows && self.findings.body.len() < MAX_SHOWN {
                        let start = &buf[..n.min(MAX_SHOWN - self.findings.body.len())];
                        self.findings.body += &lossy(start);
                    }
                    if self.length > most {
                        self.length = most;
                        self.findings.fail_for("body", format!("the body is longer than {} bytes", most));
                        return Ok(());
                    }
                    if keep && self.body.len() + n > MAX_CHECKED {
                        self.findings.fail_for("body", format!("the body is longer than {} bytes, the most that can be checked", MAX_CHECKED));
                        return Ok(());
                    }
                    if keep {
                        self.body.extend_from_slice(&buf[..n]);
                    }
                }
                Err(e) => {
                    self.findings.fail(format!("reading the body: {}", e));
                    return Ok(());
                }
            }
        }
    }

    /// Checks the rules of the body. It returns false if one of an expression failed.
    fn check_body(&mut self) -> bool {
        let body = std::mem::take(&mut self.body);
        let text = lossy(&body);
        let mut matched = true;
        if let Some(r) = self.rules.body_fails.iter().find(|r| r.matches(&text)) {
            self.findings.fail_for("body", format!("the body matches {:?}", r.text));
            matched = false;
        } else if let Some(r) = self.rules.body_needs.iter().find(|r| !r.matches(&text)) {
            let seen = shorten(text.trim(), 80);
            self.findings.fail_for("body", format!("the body does not match {:?}: {:?}", r.text, seen));
            matched = false;
        }
        path::check(&mut self.findings, &self.rules.paths, &text);
        matched
    }

    fn check_version(&mut self) {
        let valid = self.config.texts("validHTTPVersions");
        let proto = self.head("proto").map(json::text).unwrap_or_default();
        if !valid.is_empty() && !valid.contains(&proto) {
            self.findings.fail_for("protocol", format!("{}, want {}", proto, valid.join(" or ")));
        }
    }

    fn check_tls(&mut self) -> Result<()> {
        let tls = match self.head("tls").map(str::to_owned) {
            Some(tls) => tls,
            None => {
                if self.config.flag("failIfNotSSL") {
                    self.findings.fail_for("tls", "the response came without TLS");
                }
                return Ok(());
            }
        };
        if self.config.flag("failIfSSL") {
            self.findings.fail_for("tls", "the response came over TLS");
        }
        common::tls::metrics(&mut self.findings, &tls);
        common::tls::check_age(&mut self.findings, self.config, &tls)
    }

    /// Adds the metrics of the exchange.
    fn report(&mut self, transfer: Duration, failed_regex: bool) {
        let resolve = self.number("phases.resolve");
        self.findings.metric("dns_lookup_time_seconds", "s", resolve);
        let remote = self.head("remote").map(json::text).unwrap_or_default();
        common::address_metrics(&mut self.findings, &remote);
        for phase in ["resolve", "connect", "tls", "processing"] {
            let took = self.number(&("phases.".to_owned() + phase));
            self.findings.labelled("http_duration_seconds", "s", took, &[("phase", phase)]);
        }
        self.findings.labelled("http_duration_seconds", "s", transfer.as_secs_f64(), &[("phase", "transfer")]);
        let redirects = self.number("redirects") + f64::from(u8::from(self.redirects_ended()));
        let version = self.head("proto").map(json::text).unwrap_or_default();
        let version = version.trim_start_matches("HTTP/").parse().unwrap_or_default();
        let ssl = f64::from(u8::from(self.head("tls").is_some()));
        for (name, unit, value) in [
            ("http_status_code", "", f64::from(self.response.status())),
            ("http_content_length", "bytes", self.number("length")),
            ("http_uncompressed_body_length", "bytes", self.length as f64),
            ("http_redirects", "", redirects),
            ("http_ssl", "", ssl),
            ("http_version", "", version),
            ("failed_due_to_regex", "", f64::from(u8::from(failed_regex))),
        ] {
            self.findings.metric(name, unit, value);
        }
        if let Some(time) = self.response.header("last-modified").and_then(|text| header::http_date(&text)) {
            self.findings.metric("http_last_modified_timestamp_seconds", "s", time as f64);
        }
    }

    fn outcome(self, took: Duration) -> Outcome {
        let proto = self.head("proto").map(json::text).unwrap_or_default();
        let success = format!("HTTP status {} in {} ms, {} bytes over {}", self.response.status(), took.as_millis(), self.length, proto);
        self.findings.outcome(success)
    }
}
