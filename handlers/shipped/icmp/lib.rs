//! The plugin icmp: what blackbox_exporter's icmp module checks, with its metrics, and the loss of several
//! requests as check_ping does. Read probe first.

use common::config::{Budget, Config};
use common::{address_metrics, ip_family, unreached_metrics, Findings};
use prober::icmp::{echo, Reply, Request as EchoRequest};
use prober::{deadline, Error, Request, Result};
use std::io;
use std::time::Duration;

prober::plugin!(probe, validate);

/// The most time that is left for the result of requests without a reply.
const RESERVE: Duration = Duration::from_millis(20);

/// From which percentage of lost requests on an attempt warns or fails.
struct Loss {
    warn: f64,
    fail: f64,
}

impl Loss {
    fn of(config: &Config) -> Result<Loss> {
        let limits = Config(config.get("loss").unwrap_or("{}"));
        let loss = Loss { warn: limits.number("warn").unwrap_or(f64::INFINITY), fail: limits.number("fail").unwrap_or(100.0) };
        if loss.warn.is_finite() && loss.warn > loss.fail {
            return Err("loss.warn: must not be above loss.fail".into());
        }
        Ok(loss)
    }
}

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    Loss::of(&config)?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let loss = Loss::of(&config)?;
    let count = number(&config, "count").clamp(1, 20);
    let pings = Pings::send(&config, count)?;
    let mut findings = Findings::default();
    pings.report(&mut findings, request);
    let lost = count - pings.replies.len() as u32;
    let percent = f64::from(lost) / f64::from(count) * 100.0;
    let missing = || match (&pings.refused, &pings.last) {
        (Some(why), _) => why.to_string(),
        (None, Some(why)) if count > 1 => format!("{} of {} echo requests had no reply ({:.0} %); the last error: {}", lost, count, percent, why),
        (None, why) => why.as_ref().map(|e| e.to_string()).unwrap_or_default(),
    };
    if pings.refused.is_some() || percent >= loss.fail {
        findings.fail(missing());
    } else if percent >= loss.warn {
        findings.warn(missing());
    }
    if let Some(rtt) = pings.average(|r| r.rtt) {
        common::check_latency(&mut findings, &config, Duration::from_secs_f64(rtt.max(0.0).min(1e6)))?;
    }
    Ok(findings.outcome(pings.summary()))
}

fn number(config: &Config, name: &str) -> u32 {
    config.number(name).unwrap_or_default() as u32
}

/// The replies to the requests of an attempt.
struct Pings {
    count: u32,
    replies: Vec<Reply>,
    last: Option<io::Error>,    // of the last request without a reply
    refused: Option<io::Error>, // why no further request was sent
}

impl Pings {
    /// Sends count requests, one after the other. Each waits for its share of the time that is left.
    fn send(config: &Config, count: u32) -> Result<Pings> {
        let request = EchoRequest {
            host: String::new(),
            ip_family: ip_family(config).into(),
            source_address: config.text("sourceIpAddress"),
            payload: number(config, "payloadSize"),
            hop_limit: number(config, "ttl"),
            dont_fragment: config.flag("dontFragment"),
        };
        let budget = Budget::of(config)?;
        let mut pings = Pings { count, replies: Vec::new(), last: None, refused: None };
        for left in (1..=count).rev() {
            let rest = budget.left().or_else(|| deadline().map(|rest| rest - RESERVE.min(rest / 10)));
            let share = rest.map(|rest| rest / left);
            match echo(&request, share.map(|s| s.max(Duration::from_millis(1)))) {
                Ok(reply) => pings.replies.push(reply),
                Err(e) if e.to_string().starts_with("more than ") => return Err(Error::new(e)), // a limit of the host
                Err(e) if is_final(&e) => {
                    pings.refused = Some(e);
                    break;
                }
                Err(e) => pings.last = Some(e),
            }
        }
        Ok(pings)
    }

    /// Returns the average of what get returns for each reply, or None without one.
    fn average(&self, get: impl Fn(&Reply) -> f64) -> Option<f64> {
        let n = self.replies.len();
        if n == 0 {
            return None;
        }
        Some(self.replies.iter().map(get).sum::<f64>() / n as f64)
    }

    /// Returns the shortest and the longest time of a reply, in seconds.
    fn bounds(&self) -> (f64, f64) {
        self.replies.iter().fold((f64::INFINITY, 0.0), |(min, max), r| (r.rtt.min(min), r.rtt.max(max)))
    }

    /// Adds the metrics.
    fn report(&self, findings: &mut Findings, request: &Request) {
        let resolve: f64 = self.replies.iter().map(|r| r.dns).fold(0.0, f64::max);
        let phases = [("rtt", self.average(|r| r.rtt)), ("resolve", Some(resolve)), ("setup", self.average(|r| r.setup))];
        for (phase, seconds) in phases {
            findings.labelled("icmp_duration_seconds", "s", seconds.unwrap_or_default(), &[("phase", phase)]);
        }
        if let Some(reply) = self.replies.last() {
            findings.metric("dns_lookup_time_seconds", "s", resolve);
            if let Ok(ip) = reply.remote.parse() {
                address_metrics(findings, &std::net::SocketAddr::new(ip, 0).to_string());
            }
            if reply.hop_limit > 0 {
                findings.metric("icmp_reply_hop_limit", "", f64::from(reply.hop_limit));
            }
        } else if matches!(&self.refused, Some(e) if e.kind() == io::ErrorKind::NotFound) {
            for name in ["dns_lookup_time_seconds", "ip_protocol", "ip_addr_hash"] {
                findings.metric(name, "", 0.0); // as blackbox_exporter has them without an address
            }
        } else {
            unreached_metrics(findings, request);
        }
        if self.count == 1 {
            return;
        }
        let ratio = 1.0 - self.replies.len() as f64 / f64::from(self.count);
        findings.metric("icmp_loss_ratio", "", ratio);
        if let Some(average) = self.average(|r| r.rtt) {
            let (min, max) = self.bounds();
            for (stat, seconds) in [("min", min), ("avg", average), ("max", max)] {
                findings.labelled("icmp_rtt_seconds", "s", seconds, &[("stat", stat)]);
            }
        }
    }

    /// Returns the message of a Success.
    fn summary(&self) -> String {
        let (reply, average) = match (self.replies.last(), self.average(|r| r.rtt)) {
            (Some(reply), Some(average)) => (reply, average * 1e3),
            _ => return String::new(),
        };
        if self.count == 1 {
            return format!("{} replied in {:.2} ms", reply.remote, average);
        }
        let (min, max) = self.bounds();
        let replies = self.replies.len();
        format!("{} of {} replies from {} in {:.2}/{:.2}/{:.2} ms (min/avg/max)", replies, self.count, reply.remote, min * 1e3, average, max * 1e3)
    }
}

/// Reports whether a further request would fail in the same way: it was denied, the name does not exist, or
/// the system cannot send it.
fn is_final(e: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(e.kind(), PermissionDenied | NotFound | InvalidInput | Unsupported)
}
