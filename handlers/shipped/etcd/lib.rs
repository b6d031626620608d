//! The plugin etcd: asks a member for its health, and then for its status: the leader, alarms, how far it is
//! behind the log of Raft, and the size of its database. Read talk first.

use common::api::{ask, Answer, Api};
use common::bounds;
use common::config::Config;
use common::peer::{shown, Error, Result};
use prober::{json, Request};

prober::plugin!(probe, validate);

/// The most errors of a status that are read.
const MAX_ERRORS: usize = 64;

/// The fields that need the status.
const ABOUT_STATUS: [&str; 4] = ["raftLag", "dbSize", "quota", "quotaUsed"];

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &[])?;
    if config.get("status") == Some("false") {
        if let Some(field) = ABOUT_STATUS.iter().chain(&["username"]).find(|name| config.get(name).is_some()) {
            return Err(format!("{}: needs the status", field).into());
        }
    }
    config.size("quota")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    ask(request, talk)
}

fn talk(api: &mut Api) -> Result<String> {
    health(api)?;
    if api.config.get("status") == Some("false") {
        return Ok("healthy".into());
    }
    log_in(api)?;
    let answer = post(api, "/v3/maintenance/status", "{}")?;
    status(api, &answer)
}

/// Asks for the health. What is not well is among the findings, and the status says more about it.
fn health(api: &mut Api) -> Result<()> {
    let path = if api.config.flag("serializable") { "/health?serializable=true" } else { "/health" };
    let answer = api.call("GET", path, "")?;
    let (health, reason) = (answer.text("health"), shown(answer.text("reason").as_bytes()));
    match (health.as_str(), reason.as_str()) {
        ("true", _) if answer.status == 200 => {}
        ("true" | "false", "") => api.findings.fail_for("body", "unhealthy"),
        ("true" | "false", reason) => api.findings.fail_for("body", format!("unhealthy: {}", reason)),
        _ => return Err(Error::Protocol(format!("not etcd: GET /health: {}", answer.says(&answer.body)))),
    }
    Ok(())
}

/// Gets a token, which the next requests have.
fn log_in(api: &mut Api) -> Result<()> {
    if api.config.get("username").is_none() {
        return Ok(());
    }
    let login = [("name", api.config.text("username")), ("password", api.config.text("password"))];
    let body = json::object(login.map(|(name, value)| (name, json::quote(&value))));
    let token = post(api, "/v3/auth/authenticate", &body)?.text("token");
    if token.is_empty() {
        return Err(Error::Protocol("POST /v3/auth/authenticate: an answer without a token".into()));
    }
    api.findings.secrets.add(&token);
    api.headers.push(("Authorization".into(), token));
    Ok(())
}

/// Calls a method of the gateway.
fn post(api: &mut Api, path: &str, body: &str) -> Result<Answer> {
    let answer = api.call("POST", path, body)?;
    if answer.status == 200 && answer.is_object() {
        return Ok(answer);
    }
    let said = [answer.text("error"), answer.text("message"), answer.body.clone()];
    let said = shown(said.iter().find(|text| !text.is_empty()).map_or("", String::as_str).as_bytes());
    Err(Error::Refused(match answer.status {
        404 => format!("POST {}: HTTP status 404: this etcd has no gateway, or is older than 3.4", path),
        _ if answer.is_object() && !said.is_empty() => format!("POST {}: {}", path, said),
        _ => format!("POST {}: {}", path, answer.says(&said)),
    }))
}

/// Checks the answer to a question for the status. The gateway leaves out what is 0.
fn status(api: &mut Api, answer: &Answer) -> Result<String> {
    let (version, member) = (shown(answer.text("version").as_bytes()), answer.text("header.member_id"));
    if member.parse::<u64>().is_err() {
        return Err(Error::Protocol("POST /v3/maintenance/status: the answer is no status".into()));
    }
    let leader = answer.text("leader").parse().unwrap_or(0_u64);
    let findings = &mut api.findings;
    if leader == 0 {
        findings.fail_for("body", "the cluster has no leader");
    }
    let is_leader = member.parse() == Ok(leader);
    let (size, lag) = (answer.number("dbSize"), f64::max(0.0, answer.number("raftIndex") - answer.number("raftAppliedIndex")));
    for (name, unit, value) in [
        ("has_leader", "", f64::from(u8::from(leader != 0))),
        ("is_leader", "", f64::from(u8::from(is_leader))),
        ("raft_term", "", answer.number("raftTerm")),
        ("raft_lag", "", lag),
        ("db_size", "bytes", size),
        ("db_size_in_use", "bytes", answer.number("dbSizeInUse")),
    ] {
        findings.metric(name, unit, value);
    }
    let alarms = errors(api, answer);
    api.findings.metric("alarms", "", f64::from(alarms));
    bounds::check(&mut api.findings, api.config, "raftLag", "the number of log entries that are not applied", &lag.to_string());
    bounds::check(&mut api.findings, api.config, "dbSize", "the size of the database", &size.to_string());
    quota(api, answer, size)?;
    let role = match (is_leader, answer.text("isLearner") == "true") {
        (true, _) => "the leader".into(),
        (_, true) => format!("a learner of {:x}", leader),
        _ => format!("a follower of {:x}", leader),
    };
    Ok(format!("healthy: etcd {}, {}, a database of {} bytes", version, role, size))
}

/// Adds a failure for each alarm and each other error of a status. It returns the number of alarms.
fn errors(api: &mut Api, answer: &Answer) -> u32 {
    let mut alarms = 0;
    for error in (0..MAX_ERRORS).map_while(|i| json::lookup(&answer.body, &format!("errors.{}", i))) {
        let error = json::text(error);
        let part = |name: &str| error.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default();
        let (alarm, member) = (part("alarm:"), part("memberID:").parse::<u64>());
        match (alarm, member) {
            ("", _) | (_, Err(_)) if error.trim() == "etcdserver: no leader" => {} // it is named already
            ("", _) | (_, Err(_)) => api.findings.fail_for("body", format!("error of the member: {}", shown(error.as_bytes()))),
            (alarm, Ok(member)) => {
                alarms += 1;
                let why = match alarm {
                    "NOSPACE" => ", whose database has reached its quota",
                    "CORRUPT" => ", whose data differs from the data of the others",
                    _ => "",
                };
                api.findings.fail_for("body", format!("alarm {} of member {:x}{}", shown(alarm.as_bytes()), member, why));
            }
        }
    }
    alarms
}

/// Checks how much of the quota the database has used. etcd 3.6 and later know the quota.
fn quota(api: &mut Api, answer: &Answer, size: f64) -> Result<()> {
    let own = api.config.size("quota").unwrap_or_default() as f64;
    let quota = if own > 0.0 { own } else { answer.number("dbSizeQuota") };
    if quota > 0.0 {
        let used = (size / quota * 1000.0).round() / 10.0;
        api.findings.metric("quota_used", "percent", used);
        bounds::check(&mut api.findings, api.config, "quotaUsed", "the used part of the quota in percent", &used.to_string());
    } else if api.config.get("quotaUsed").is_some() {
        return Err(Error::Refused("quotaUsed: this etcd does not say its quota: set the field quota".into()));
    }
    Ok(())
}
