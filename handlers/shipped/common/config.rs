//! The config of a probe. The host has validated it with the schema of the manifest and filled in
//! its defaults.

use crate::regexp::Regexp;
use prober::{json, Error, Request, Result};
use std::time::{Duration, Instant};

/// An object of the config, as JSON.
pub struct Config<'a>(pub &'a str);

impl<'a> Config<'a> {
    /// Returns the config of a request.
    pub fn of(request: &'a Request) -> Config<'a> {
        Config(json::lookup(request.json(), "config").unwrap_or("{}"))
    }

    /// Returns the value of a field as JSON.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        json::lookup(self.0, name)
    }

    /// Returns a string, or "".
    pub fn text(&self, name: &str) -> String {
        self.get(name).map(json::text).unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        self.get(name).map(json::items).unwrap_or_default().into_iter().map(json::text).collect()
    }

    pub fn objects(&self, name: &str) -> Vec<Config<'a>> {
        self.get(name).map(json::items).unwrap_or_default().into_iter().map(Config).collect()
    }

    /// Returns the names and values of an object of strings.
    pub fn pairs(&self, name: &str) -> Vec<(String, String)> {
        self.get(name).map(json::fields).unwrap_or_default().into_iter().map(|(k, v)| (k, json::text(v))).collect()
    }

    /// Returns a duration such as "720h", or None without one.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        prober::config::parse_duration(&text).map(Some).ok_or_else(|| Error::new(format!("{}: {} is not a duration", name, text)))
    }

    /// Returns a number of bytes such as 1024, "64Ki", "1Mi" or "1Gi"; 0 without one.
    pub fn size(&self, name: &str) -> Result<u64> {
        let text = self.text(name);
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let shift = match unit {
            "" => 0,
            "Ki" => 10,
            "Mi" => 20,
            "Gi" => 30,
            _ => 64,
        };
        let bytes = if digits.is_empty() { Some(0) } else { digits.parse().ok().filter(|n: &u64| *n < 1 << 40) };
        bytes.filter(|_| shift < 64).and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| Error::new(format!("{}: {} is not a number of bytes", name, text)))
    }

    /// Returns a list of regular expressions.
    pub fn regexps(&self, name: &str) -> Result<Vec<Regexp>> {
        self.texts(name).iter().enumerate().map(|(i, text)| Regexp::at(&format!("{}[{}]", name, i), text)).collect()
    }
}

/// The time that a check has by its field timeout. A check that ends by itself reports what it has measured
/// so far; one that the deadline of the probe ends does not.
#[derive(Clone, Copy)]
pub struct Budget(Option<Instant>);

impl Budget {
    /// Returns a budget that begins now.
    pub fn of(config: &Config) -> Result<Budget> {
        Ok(Budget(config.duration("timeout")?.map(|d| Instant::now() + d)))
    }

    /// Returns what is left, and at least a millisecond: less would not wait at all. None means until the
    /// deadline of the probe.
    pub fn left(&self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
    }

    pub fn is_over(&self) -> bool {
        self.0.map_or(false, |end| Instant::now() >= end)
    }
}

/// Returns the TLS options of a plugin for the host, from its fields "credentials" and "tlsConfig".
pub fn tls_options(config: &Config) -> String {
    let tls = Config(config.get("tlsConfig").unwrap_or("{}"));
    let mut fields = Vec::new();
    for (name, value) in [
        ("credentials", config.text("credentials")),
        ("serverName", tls.text("serverName")),
        ("ca", tls.text("ca")),
        ("minVersion", tls.text("minVersion")),
        ("maxVersion", tls.text("maxVersion")),
        ("verify", if tls.flag("insecureSkipVerify") { "none".into() } else { String::new() }),
    ] {
        if !value.is_empty() {
            fields.push((name, json::quote(&value)));
        }
    }
    json::object(fields)
}
