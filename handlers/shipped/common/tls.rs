//! The metrics of TLS, and the check of how long certificates last.

use crate::config::Config;
use crate::Findings;
use prober::net::Conn;
use prober::{json, Result};
use std::io;
use std::time::{Duration, SystemTime};

/// Go's time.Time{}.Unix(), which blackbox_exporter exports where nothing was verified.
const NEVER: f64 = -62135596800.0;

/// Starts TLS on a new connection. Its errors do not begin with the host's name of the call, starttls, because the
/// protocol may have no such command.
pub fn start(conn: &mut Conn, options: &str) -> io::Result<()> {
    conn.start_tls(options).map_err(|e| io::Error::new(e.kind(), e.to_string().trim_start_matches("starttls: ").to_string()))
}

/// Adds blackbox_exporter's metrics of TLS. tls is a TLSInfo of the host.
pub fn metrics(findings: &mut Findings, tls: &str) {
    let certificates = json::lookup(tls, "peer").map(json::items).unwrap_or_default();
    let earliest = earliest_end(&certificates);
    findings.metric("ssl_earliest_cert_expiry", "s", earliest.unwrap_or(NEVER));
    let chain = json::lookup(tls, "chainNotAfter").and_then(|t| t.parse().ok());
    findings.metric("ssl_last_chain_expiry_timestamp_seconds", "s", chain.unwrap_or(NEVER));
    let version = text(tls, "version");
    findings.labelled("tls_version_info", "", 1.0, &[("version", &version)]);
    if let Some(own) = certificates.first() {
        let names = json::lookup(own, "sans").map(json::items).unwrap_or_default();
        let names: Vec<String> = names.into_iter().map(json::text).filter(|n| is_name(n)).collect();
        let labels = [
            ("fingerprint_sha256", text(own, "sha256")),
            ("issuer", text(own, "issuer")),
            ("serialnumber", text(own, "serial")),
            ("subject", text(own, "subject")),
            ("subjectalternative", names.join(",")),
        ];
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        findings.labelled("ssl_last_chain_info", "", 1.0, &labels);
    }
}

fn text(doc: &str, field: &str) -> String {
    json::lookup(doc, field).map(json::text).unwrap_or_default()
}

fn earliest_end(certificates: &[&str]) -> Option<f64> {
    let ends = certificates.iter().filter_map(|c| json::lookup(c, "notAfter")?.parse().ok());
    ends.fold(None, |least: Option<f64>, end: f64| Some(least.map_or(end, |l| l.min(end))))
}

/// Reports whether an alternative name is one of DNS.
fn is_name(name: &str) -> bool {
    !name.contains([':', '/', '@'].as_slice()) && name.parse::<std::net::IpAddr>().is_err()
}

/// Fails or warns if the certificates of the peer end too soon, by the field certificateAge. The host says which
/// certificate counts, and names it.
pub fn check_age(findings: &mut Findings, config: &Config, tls: &str) -> Result<()> {
    let limits = Config(config.get("certificateAge").unwrap_or("{}"));
    let (at, name_of) = if limits.text("certificates") == "leaf" { ("peer.0.notAfter", "leafEnd") } else { ("chainEndsAt", "chainEnd") };
    if json::lookup(tls, "peer").map(json::items).unwrap_or_default().is_empty() {
        return Ok(()); // the host knows no certificate
    }
    // A certificate may have ended before 1970.
    let seconds = json::lookup(tls, at).and_then(|t| t.parse::<i64>().ok()).unwrap_or_default().max(0);
    let end = Duration::from_secs(seconds as u64);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = end.checked_sub(now).unwrap_or_default();
    for (name, fails) in [("fail", true), ("warn", false)] {
        match limits.duration(name)? {
            Some(least) if left < least => {
                let why = format!("{}, less than {}", text(tls, name_of), limits.text(name));
                if fails {
                    findings.fail_for("tls", why);
                } else {
                    findings.warn(why);
                }
                return Ok(());
            }
            _ => {}
        }
    }
    Ok(())
}
