//! The plugin host: checks load, memory, disks, processes and files of the host, from /proc and granted paths. Read
//! probe first; proc.rs has what /proc says, disk.rs file systems and files.

mod disk;
mod proc;

use common::config::Config;
use common::Findings;
use prober::{Request, Result};
use std::io;

prober::plugin!(probe, validate);

const SECTIONS: [&str; 5] = ["load", "memory", "disk", "process", "file"];

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if SECTIONS.iter().all(|name| config.get(name).is_none()) {
        return Err(format!("set one of {}", SECTIONS.join(", ")).as_str().into());
    }
    proc::validate(&config)?;
    disk::validate(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let mut check = Check { findings: Findings::of(request), missing: Vec::new(), seen: Vec::new() };
    proc::check(&mut check, &config);
    disk::check(&mut check, &config)?;
    Ok(check.outcome())
}

/// What a check has found.
pub struct Check {
    pub findings: Findings,
    missing: Vec<String>, // paths that are not granted
    /// What was seen, for the message of a Success.
    pub seen: Vec<String>,
}

impl Check {
    /// Records that a path cannot be read. pattern is the grant for it.
    pub fn unread(&mut self, pattern: &str, e: &io::Error) {
        let text = e.to_string();
        if !text.ends_with(" is not granted") {
            return self.findings.fail(text);
        }
        let linked = text.split(" leads to ").nth(1).and_then(|t| t.split(": file://").next()).map(|to| format!("file://{}", to));
        let grant = linked.unwrap_or_else(|| format!("file://{}", pattern));
        if !self.missing.contains(&grant) {
            self.missing.push(grant);
        }
    }

    fn outcome(mut self) -> prober::Outcome {
        if !self.missing.is_empty() {
            let grants = self.missing.iter().map(|g| prober::json::quote(g)).collect::<Vec<_>>().join(", ");
            self.findings.fail_for("denied", format!("files are not granted: write in plugins of prober.yaml: {{name: host, grants: [{}]}}", grants));
        }
        self.findings.outcome(self.seen.join(", "))
    }
}

/// Returns a number of bytes such as 1024, "64Ki", "1.5Gi" or "2Ti".
pub fn bytes(text: &str) -> Option<f64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let factor = match unit {
        "" => 1.0,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|n| n * factor)
}

/// Returns a number of bytes for a message.
pub fn shown_bytes(n: f64) -> String {
    let units = [(1024.0 * 1024.0 * 1024.0 * 1024.0, "TiB"), (1024.0 * 1024.0 * 1024.0, "GiB"), (1024.0 * 1024.0, "MiB"), (1024.0, "KiB")];
    match units.iter().find(|(size, _)| n >= *size) {
        Some((size, unit)) => format!("{:.1} {}", n / size, unit),
        None => format!("{} bytes", n),
    }
}

/// The bounds of one value: min and max fail, warnBelow and warnAbove warn.
pub struct Bounds<'a>(Config<'a>);

impl<'a> Bounds<'a> {
    /// Returns the bounds of a field, or None without it.
    pub fn of(config: &Config<'a>, field: &str) -> Option<Bounds<'a>> {
        config.get(field).map(|doc| Bounds(Config(doc)))
    }

    /// Fails or warns if a value is out of the bounds. show returns a value for messages.
    pub fn check(&self, findings: &mut Findings, what: &str, value: f64, show: impl Fn(f64) -> String) {
        let limit = |name: &str| bytes(&self.0.text(name));
        let message = |side: &str, l: f64| format!("{} is {}, {} {}", what, show(value), side, show(l));
        match (limit("min"), limit("max"), limit("warnBelow"), limit("warnAbove")) {
            (Some(l), _, _, _) if value < l => findings.fail(message("below", l)),
            (_, Some(l), _, _) if value > l => findings.fail(message("above", l)),
            (_, _, Some(l), _) if value < l => findings.warn(message("below", l)),
            (_, _, _, Some(l)) if value > l => findings.warn(message("above", l)),
            _ => {}
        }
    }
}

/// Returns a percentage for a message.
pub fn percent(value: f64) -> String {
    format!("{:.0} %", value)
}

/// Returns the share of a whole as a percentage; 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole * 100.0
    } else {
        0.0
    }
}
