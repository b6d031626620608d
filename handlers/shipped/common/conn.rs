//! Connections by the host: how a config dials, reads until its time is over, and what is measured.

use crate::config::{Budget, Config};
use crate::{address_metrics, ip_family, tls, Findings};
use prober::net::{self, Conn};
use prober::{json, Request, Result};
use std::io::{Error, ErrorKind, Read};

/// Connects to HOST:PORT over TCP, or to the target if address is "".
pub fn dial(request: &Request, config: &Config, budget: &Budget, address: &str) -> std::io::Result<Conn> {
    let mut url = String::new();
    if request.unix().is_empty() || !address.is_empty() {
        url = format!("tcp://{}?ipFamily={}", address, ip_family(config));
        let source = config.text("sourceIpAddress");
        if !source.is_empty() {
            url += &format!("&sourceAddress={}", source);
        }
    }
    net::dial(&url, budget.left())
}

/// Reads more bytes into buf. It returns false at the end of the connection.
pub fn read_more(conn: &mut Conn, budget: &Budget, buf: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut chunk = [0; 4096];
    loop {
        if budget.is_over() {
            return Err(Error::new(ErrorKind::TimedOut, "timed out"));
        }
        conn.set_timeout(budget.left());
        match conn.read(&mut chunk) {
            Ok(n) => {
                buf.extend_from_slice(&chunk[..n]);
                return Ok(n > 0);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {} // the time is over
            Err(e) => return Err(e),
        }
    }
}

/// Adds the metrics of a connection, and checks its certificates.
pub fn report(findings: &mut Findings, config: &Config, conn: &Conn) -> Result<()> {
    let info = conn.info()?;
    let resolve = json::lookup(&info, "timings.dns").and_then(|n| n.parse().ok()).unwrap_or_default();
    findings.metric("dns_lookup_time_seconds", "s", resolve);
    address_metrics(findings, &json::lookup(&info, "remote").map(json::text).unwrap_or_default());
    if let Some(peer) = json::lookup(&info, "tls") {
        tls::metrics(findings, peer);
        tls::check_age(findings, config, peer)?;
    }
    Ok(())
}
