//! The plugin httpcheck: everything that blackbox_exporter's http module checks, with its metrics.
//! Read probe first: it makes the request, and then checks the response in the order of that module.

use common::config::{Budget, Config};
use common::regexp::lossy;
use common::web::{self, Rules};
use common::{date, oauth2, Findings};
use prober::{http, json, Outcome, Request, Result};
use std::time::{Duration, Instant};

prober::plugin!(probe, validate);

/// The most redirects that are followed, as blackbox_exporter does.
const MAX_REDIRECTS: u32 = 10;

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    Rules::of(&config)?;
    oauth2::validate(&config)?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let rules = Rules::of(&config)?;
    let mut findings = Findings::of(request);
    let mut start = Instant::now();
    let sent = oauth2::send(&mut to_send(request, &config), request, &config, &Budget::of(&config)?, &mut findings, &mut start);
    let response = match sent {
        Some(response) => response,
        None => {
            without_response(&mut findings, request);
            return Ok(findings.outcome(String::new()));
        }
    };
    let mut exchange = Exchange { config: &config, rules: &rules, findings, response, length: 0 };
    exchange.check()?;
    let took = start.elapsed();
    common::check_latency(&mut exchange.findings, &config, took)?;
    Ok(exchange.outcome(took))
}

/// Returns the request that the config describes.
fn to_send(request: &Request, config: &Config) -> http::Request {
    let mut r = web::connection(config);
    r.url = url(config);
    r.method = config.text("method");
    r.body = config.text("body").into_bytes();
    if config.flag("followRedirects") {
        r.redirects = MAX_REDIRECTS;
    }
    web::add_headers(&mut r, request, config);
    r
}

/// Returns the URL to ask for. A path alone is one of the target, over HTTP.
fn url(config: &Config) -> String {
    let url = config.text("url");
    if url.starts_with('/') {
        return "http://".to_owned() + &url;
    }
    url
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
    length: u64, // of the body, without its compression
}

impl Exchange<'_> {
    fn head(&self, path: &str) -> Option<&str> {
        json::lookup(self.response.head(), path)
    }

    fn number(&self, path: &str) -> f64 {
        self.head(path).and_then(|n| n.parse().ok()).unwrap_or_default()
    }

    fn check(&mut self) -> Result<()> {
        let (rules, status, after) = (self.rules, self.response.status(), self.after_redirects());
        rules.check_status(&mut self.findings, status, &after);
        let failed_header = self.findings.passed() && !rules.check_headers(&mut self.findings, self.response.head());
        let needs_body = self.findings.passed() && rules.body();
        let start = Instant::now();
        let mut body = Vec::new();
        if needs_body || !self.redirects_ended() {
            let read = rules.read_body(&mut self.findings, &mut self.response, needs_body);
            self.length = read.length;
            body = read.data;
        }
        let transfer = start.elapsed();
        let failed_body = needs_body && !rules.check_body(&mut self.findings, &lossy(&body));
        self.check_version();
        self.check_tls()?;
        self.report(transfer, failed_header || failed_body);
        Ok(())
    }

    /// Returns from where the response came, if redirects led there.
    fn after_redirects(&self) -> String {
        match self.number("redirects") as u32 {
            0 => String::new(),
            n => format!(", after redirect {} to {}", n, web::shown_url(&self.head("url").map(json::text).unwrap_or_default())),
        }
    }

    /// Reports whether the response is a redirect that was not followed. blackbox_exporter has closed
    /// its body then.
    fn redirects_ended(&self) -> bool {
        let redirect = matches!(self.response.status(), 301 | 302 | 303 | 307 | 308);
        redirect && self.response.header("location").is_some()
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
        if let Some(time) = self.response.header("last-modified").and_then(|text| date::http_date(&text)) {
            self.findings.metric("http_last_modified_timestamp_seconds", "s", time as f64);
        }
    }

    fn outcome(self, took: Duration) -> Outcome {
        let proto = self.head("proto").map(json::text).unwrap_or_default();
        let success = format!("HTTP status {} in {} ms, {} bytes over {}", self.response.status(), took.as_millis(), self.length, proto);
        self.findings.outcome(success)
    }
}
