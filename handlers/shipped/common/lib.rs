//! What the shipped plugins share: their config, regular expressions in Go's syntax, the metrics of
//! certificates, and requests of HTTP. Read config.rs, then regexp.rs, tls.rs and web.rs.

pub mod api;
pub mod ber;
pub mod bounds;
pub mod config;
pub mod conn;
pub mod datagram;
pub mod date;
pub mod header;
pub mod oauth2;
pub mod path;
pub mod peer;
pub mod query;
pub mod regexp;
pub mod scram;
mod secrets;
pub mod tls;
pub mod url;
pub mod web;

pub use secrets::Secrets;

use prober::{Metric, Outcome, Verdict};

/// What a check has found: metrics, and why it is not a Success.
#[derive(Default)]
pub struct Findings {
    pub metrics: Vec<Metric>,
    /// What the target sent, to be shown where the operator allows that.
    pub body: String,
    /// What the plugin learned and nobody may see. The host redacts the secrets of the config.
    pub secrets: Secrets,
    shows: bool, // whether the operator allows that
    reason: &'static str, // of the first failure that has one
    failures: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    /// Returns the findings of an attempt that has not found anything.
    pub fn of(request: &prober::Request) -> Findings {
        Findings { shows: has_feature(request, "output"), ..Findings::default() }
    }

    pub fn fail(&mut self, why: impl Into<String>) {
        self.failures.push(why.into());
    }

    /// Fails for a reason of the contract, such as "http_status".
    pub fn fail_for(&mut self, reason: &'static str, why: impl Into<String>) {
        if self.reason.is_empty() {
            self.reason = reason;
        }
        self.fail(why);
    }

    pub fn warn(&mut self, why: impl Into<String>) {
        self.warnings.push(why.into());
    }

    /// Adds what one part of a check has found. title begins its messages.
    pub fn absorb(&mut self, part: Findings, title: &str) {
        if self.reason.is_empty() {
            self.reason = part.reason;
        }
        if !part.failures.is_empty() && self.failures.is_empty() {
            self.body = part.body;
        }
        self.failures.extend(part.failures.iter().map(|why| format!("{}: {}", title, why)));
        self.warnings.extend(part.warnings.iter().map(|why| format!("{}: {}", title, why)));
        self.metrics.extend(part.metrics);
        self.secrets = part.secrets;
    }

    /// Reports whether nothing has failed so far.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    pub fn metric(&mut self, name: &str, unit: &str, value: f64) {
        self.labelled(name, unit, value, &[]);
    }

    pub fn labelled(&mut self, name: &str, unit: &str, value: f64, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.metrics.push(Metric { name: name.into(), unit: unit.into(), value, labels });
    }

    /// Returns the outcome: the failures, else the warnings, else a Success with a message.
    pub fn outcome(self, success: String) -> Outcome {
        let (verdict, message) = if !self.failures.is_empty() {
            (Verdict::Failure, self.failures.join("; "))
        } else if !self.warnings.is_empty() {
            (Verdict::Warning, self.warnings.join("; "))
        } else {
            (Verdict::Success, success)
        };
        let mut out = Outcome::new(verdict, self.secrets.hide(&message));
        out.metrics = self.metrics;
        for (_, value) in out.metrics.iter_mut().flat_map(|m| m.labels.iter_mut()) {
            *value = self.secrets.hide(value);
        }
        out.reason = self.reason.into();
        if verdict != Verdict::Success && !self.body.is_empty() {
            out.details = prober::json::object([("body", prober::json::quote(&self.secrets.hide(&self.body)))]);
        }
        out
    }
}

/// Reports whether the host has a feature of its list, such as the capability "kv".
pub fn has_feature(request: &prober::Request, name: &str) -> bool {
    let features = prober::json::lookup(request.json(), "host.features").map(prober::json::items).unwrap_or_default();
    features.into_iter().any(|f| prober::json::text(f) == name)
}

/// Adds the metrics of a target that was not reached: those of its address, if the config of the probe
/// has one and not a name.
pub fn unreached_metrics(findings: &mut Findings, request: &prober::Request) {
    findings.metric("dns_lookup_time_seconds", "s", 0.0);
    if let Ok(ip) = request.text("target.ip").parse() {
        address_metrics(findings, &std::net::SocketAddr::new(ip, 0).to_string());
    }
}

/// Returns the metrics of an address such as "10.0.0.7:80": the version of IP, and blackbox_exporter's
/// hash of the address.
pub fn address_metrics(findings: &mut Findings, remote: &str) {
    let parsed: Option<std::net::SocketAddr> = remote.parse().ok();
    let (version, hash) = match parsed.map(|a| a.ip()) {
        Some(std::net::IpAddr::V4(ip)) => (4.0, fnv32a(&ip.octets())),
        Some(std::net::IpAddr::V6(ip)) => (6.0, fnv32a(&ip.octets())),
        None => return,
    };
    findings.metric("ip_protocol", "", version);
    findings.metric("ip_addr_hash", "", f64::from(hash));
}

fn fnv32a(data: &[u8]) -> u32 {
    data.iter().fold(0x811c9dc5, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x01000193))
}

/// Returns the start of a text, for a message.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most).collect::<String>() + "…"
}

/// Returns blackbox_exporter's preferred_ip_protocol and ip_protocol_fallback as an ipFamily of the host.
pub fn ip_family(config: &config::Config) -> &'static str {
    match (config.text("preferredIpProtocol").as_str(), config.flag("ipProtocolFallback")) {
        ("ip4", true) => "4,6",
        ("ip4", false) => "4",
        (_, true) => "6,4",
        (_, false) => "6",
    }
}

/// Fails or warns if a check took longer than its config allows, by the field latency.
pub fn check_latency(findings: &mut Findings, config: &config::Config, took: std::time::Duration) -> prober::Result<()> {
    validate_bounds(config, "latency")?;
    check_bound(findings, config, "latency", took, |limit| format!("it took {} ms, more than {}", took.as_millis(), limit));
    Ok(())
}

/// Fails or warns if a duration is above the limits of a field. why returns the message.
pub fn check_bound(findings: &mut Findings, config: &config::Config, field: &str, value: std::time::Duration, why: impl Fn(&str) -> String) {
    let limits = config::Config(config.get(field).unwrap_or("{}"));
    let is_above = |name: &str| matches!(limits.duration(name), Ok(Some(most)) if value > most);
    if is_above("fail") {
        findings.fail(why(&limits.text("fail")));
    } else if is_above("warn") {
        findings.warn(why(&limits.text("warn")));
    }
}

/// Checks that the fields warn and fail of a field are durations.
pub fn validate_bounds(config: &config::Config, field: &str) -> prober::Result<()> {
    let limits = config::Config(config.get(field).unwrap_or("{}"));
    limits.duration("warn")?;
    limits.duration("fail")?;
    Ok(())
}

/// Checks that a username has a password and a password a username, and that fields about a login are only there with
/// them.
pub fn validate_login(config: &config::Config, fields: &[&str]) -> prober::Result<()> {
    let has_user = config.get("username").is_some();
    if has_user != config.get("password").is_some() {
        return Err("username and password: one of them is not set".into());
    }
    match fields.iter().find(|field| !has_user && config.get(field).is_some()) {
        Some(field) => Err(format!("{}: needs a username and a password", field).into()),
        None => Ok(()),
    }
}

/// Checks that fields have no zero byte, which ends strings in a protocol.
pub fn validate_strings(config: &config::Config, fields: &[&str]) -> prober::Result<()> {
    match fields.iter().find(|field| config.text(field).contains('\0')) {
        Some(field) => Err(format!("{}: has a zero byte", field).into()),
        None => Ok(()),
    }
}

/// Checks the fields of a server of mail, of which some are about a login.
pub fn validate_mail(config: &config::Config, fields: &[&str]) -> prober::Result<()> {
    let (tls, start_tls) = (config.flag("tls"), config.flag("startTLS"));
    if tls && start_tls {
        return Err("startTLS: cannot be used with tls".into());
    }
    validate_login(config, fields)?;
    if config.get("username").is_some() && !tls && !start_tls {
        return Err("username: a login needs startTLS or tls".into());
    }
    validate_limits(config)
}

/// Checks the fields timeout, certificateAge and latency.
pub fn validate_limits(config: &config::Config) -> prober::Result<()> {
    config.duration("timeout")?;
    validate_bounds(config, "certificateAge")?;
    validate_bounds(config, "latency")
}
