//! The members of a replica set.

use crate::bson::{field, visit, Document, Value};
use crate::wire::{text, Server};
use common::config::Config;
use common::peer::Result;
use common::{bounds, check_bound, Findings};
use std::time::Duration;

const COMMAND: &str = "replSetGetStatus";

/// The most members that a message names.
const MAX_NAMED: usize = 5;

/// States of members.
const PRIMARY: f64 = 1.0;
const SECONDARY: f64 = 2.0;
const ARBITER: f64 = 7.0;

/// A member of the replica set.
struct Member {
    name: String,
    state: f64,
    state_name: String,
    healthy: bool,
    applied: Option<i64>, // when its last operation was made, in milliseconds since 1970
}

impl Member {
    /// Reads a member; None if it is malformed.
    fn of(document: &[u8]) -> Option<Member> {
        let state = field(document, "state").and_then(Value::number)?;
        let up = field(document, "health").and_then(Value::number)? == 1.0;
        let applied = match field(document, "optimeDate") {
            Some(Value::Date(at)) => Some(at),
            _ => None,
        };
        let healthy = up && [PRIMARY, SECONDARY, ARBITER].contains(&state);
        Some(Member { name: text(document, "name"), state, state_name: text(document, "stateStr"), healthy, applied })
    }
}

/// Reports whether a field of the config needs the state of the members.
pub fn is_wanted(config: &Config) -> bool {
    config.flag("replication") || ["members", "lag"].iter().any(|name| config.get(name).is_some())
}

/// Checks the members, and returns what a Success says of them.
pub fn check(server: &mut Server) -> Result<String> {
    let answer = server.run(COMMAND, "admin", Document::new().int(COMMAND, 1))?;
    let members = match answer.get("members") {
        Some(Value::Document(list)) => read(list),
        _ => None,
    };
    let members = members.ok_or_else(|| server.malformed(COMMAND))?;
    report(&mut server.peer.findings, server.peer.config, &members);
    let healthy = members.iter().filter(|m| m.healthy).count();
    Ok(format!("{} of {} members are healthy", healthy, members.len()))
}

/// Reads the members; None if one of them is malformed.
fn read(list: &[u8]) -> Option<Vec<Member>> {
    let mut members = Some(Vec::new());
    visit(list, |_, value| {
        let member = match value {
            Value::Document(document) => Member::of(document),
            _ => None,
        };
        match (member, &mut members) {
            (Some(member), Some(all)) => all.push(member),
            _ => members = None,
        }
    })?;
    members
}

fn report(findings: &mut Findings, config: &Config, members: &[Member]) {
    let (healthy, ill): (Vec<&Member>, Vec<&Member>) = members.iter().partition(|m| m.healthy);
    findings.metric("members", "", members.len() as f64);
    findings.metric("healthy_members", "", healthy.len() as f64);
    bounds::check(findings, config, "members", "the number of healthy members", &healthy.len().to_string());
    if !ill.is_empty() {
        let mut names: Vec<String> = ill.iter().take(MAX_NAMED).map(|m| format!("{} is {}", m.name, m.state_name)).collect();
        if ill.len() > MAX_NAMED {
            names.push(format!("and {} more", ill.len() - MAX_NAMED));
        }
        findings.warn(format!("{} of {} members are not healthy: {}", ill.len(), members.len(), names.join(", ")));
    }
    let newest = match healthy.iter().find(|m| m.state == PRIMARY).and_then(|m| m.applied) {
        Some(newest) => newest,
        None => return findings.fail_for("body", "no member is a primary"),
    };
    let behind = |m: &&Member| Some((newest.saturating_sub(m.applied?).max(0), m.name.clone()));
    let last = healthy.iter().filter(|m| m.state == SECONDARY).filter_map(behind).max();
    if let Some((millis, name)) = last {
        let lag = Duration::from_millis(millis as u64);
        findings.metric("replication_lag_seconds", "s", lag.as_secs_f64());
        check_bound(findings, config, "lag", lag, |limit| format!("the member {} is {:.1} s behind, more than {}", name, lag.as_secs_f64(), limit));
    }
}
