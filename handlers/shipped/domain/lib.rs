//! The plugin domain: asks by RDAP (RFC 9083) when the registration of a domain ends. A server of RDAP that is away
//! gives no verdict. Read probe first.

use common::config::Config;
use common::{shorten, Findings};
use prober::{deadline, http, json, kv, Error, Request, Result};
use std::io::Read;
use std::time::{Duration, SystemTime};

mod date;

prober::plugin!(probe, validate);

/// The most bytes of an answer.
const MAX_ANSWER: usize = 512 << 10;

/// The most events, entities, states or fields of an answer that are read.
const MAX_ITEMS: usize = 64;

/// How long a server that IANA names is remembered, in seconds.
const REMEMBERED: u64 = 86400;

/// The least time that is left for the result.
const RESERVE: Duration = Duration::from_millis(20);

/// The states (RFC 8056) in which a domain has no name servers, or soon another owner.
const LOST: [&str; 4] = ["client hold", "server hold", "redemption period", "pending delete"];

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("domain").is_some() || !request.host().is_empty() {
        name_of(&request, &config)?;
    }
    let days = limits(&config);
    if days.warn < days.fail {
        return Err("days.warn: must not be below days.fail".into());
    }
    Ok(())
}

/// From how many days before the end on an attempt warns or fails.
struct Days {
    warn: f64,
    fail: f64,
}

fn limits(config: &Config) -> Days {
    let days = Config(config.get("days").unwrap_or("{}"));
    let fail = days.number("fail").unwrap_or(7.0);
    Days { warn: days.number("warn").unwrap_or(f64::max(30.0, fail)), fail }
}

/// Returns the name of the domain, in lower case and without a dot at its end.
fn name_of(request: &Request, config: &Config) -> Result<String> {
    let name = Some(config.text("domain")).filter(|d| !d.is_empty()).unwrap_or_else(|| request.host());
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let valid = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let tld = name.rsplit('.').next().unwrap_or_default();
    if name.len() > 253 || !name.contains('.') || !name.split('.').all(valid) || tld.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("domain: {:?} is not the name of a domain; write others than ASCII as xn--…", shorten(&name, 80)).into());
    }
    Ok(name)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let name = name_of(request, &config)?;
    let server = match config.text("server") {
        server if server.is_empty() => find_server(&config, &name)?,
        server => server,
    };
    let url = format!("{}/domain/{}", server.trim_end_matches('/'), name);
    let (status, answer) = get(&url, "application/rdap+json")?;
    let mut findings = Findings::default();
    match status {
        200 => check(&mut findings, &config, &name, &answer)?,
        404 => findings.fail_for("body", format!("{} is not registered, or is part of a registered domain", name)),
        status => return Err(format!("{} answers with status {}", host_of(&url), status).into()),
    }
    let said = std::mem::take(&mut findings.body);
    Ok(findings.outcome(said))
}

/// Returns the server of the top-level domain by IANA's list, which is read once a day.
fn find_server(config: &Config, name: &str) -> Result<String> {
    let tld = name.rsplit('.').next().unwrap_or_default();
    let key = format!("server of {}", tld);
    let remembered = kv::get(&key).ok().flatten().and_then(|v| String::from_utf8(v).ok()).unwrap_or_default();
    if let Some((until, server)) = remembered.split_once(' ') {
        if until.parse::<u64>().map_or(false, |until| now() < until) {
            return Ok(server.into());
        }
    }
    let (status, list) = get(&config.text("bootstrap"), "application/json")?;
    if status != 200 {
        return Err(format!("{} answers with status {}", host_of(&config.text("bootstrap")), status).into());
    }
    let server = server_in(&list, tld).ok_or_else(|| Error::new(format!("no server of RDAP is known for .{}: set server", tld)))?;
    let _ = kv::set(&key, format!("{} {}", now() + REMEMBERED, server).as_bytes()); // it may not be granted
    Ok(server)
}

/// Returns the server of a top-level domain in a list of RFC 9224: [[["com","net"],["https://…/"]],…]. It takes
/// time proportional to the list.
fn server_in(list: &str, tld: &str) -> Option<String> {
    let services = &list[list.find("\"services\"")?..];
    let rest = &services[services.find(&json::quote(tld))?..];
    let rest = &rest[rest.find(']')? + 1..];
    let urls = &rest[rest.find('[')?..];
    let urls = urls[..=urls.find(']')?].get(..4096.min(urls.find(']')? + 1))?;
    json::items(urls).into_iter().map(json::text).find(|url| url.starts_with("https://"))
}

/// Returns the status and the body of an answer. Each failure is an error: without an answer there is no verdict.
fn get(url: &str, accept: &str) -> Result<(u16, String)> {
    let failed = |e: &dyn std::fmt::Display| Error::new(format!("asking {}: {}", host_of(url), e));
    let timeout = deadline().map(|rest| rest.saturating_sub(RESERVE.max(rest / 20)).max(Duration::from_millis(1)));
    let request = http::Request { url: url.into(), headers: vec![("Accept".into(), accept.into())], redirects: 3, timeout, ..Default::default() };
    let mut response = request.send().map_err(|e| failed(&e))?;
    let (mut body, mut buf) = (Vec::new(), [0; 16 << 10]);
    loop {
        match response.read(&mut buf).map_err(|e| failed(&e))? {
            0 => return Ok((response.status(), String::from_utf8_lossy(&body).into_owned())),
            n => body.extend_from_slice(&buf[..n]),
        }
        if body.len() > MAX_ANSWER {
            return Err(failed(&format!("more than {} bytes", MAX_ANSWER)));
        }
        if deadline().map_or(false, |rest| rest < RESERVE) {
            return Err(failed(&"the answer is not complete in time"));
        }
    }
}

fn host_of(url: &str) -> String {
    let rest = url.split("://").nth(1).unwrap_or(url);
    rest.split(['/', '?'].as_slice()).next().unwrap_or_default().into()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the first items of an array.
fn items<'a>(doc: &'a str, path: &'a str) -> impl Iterator<Item = &'a str> + 'a {
    (0..MAX_ITEMS).map_while(move |i| json::lookup(doc, &format!("{}.{}", path, i)))
}

/// Checks an answer about a domain. The body of the findings becomes the message of a Success.
fn check(findings: &mut Findings, config: &Config, name: &str, answer: &str) -> Result<()> {
    let text = |path: &str| json::lookup(answer, path).map(json::text).unwrap_or_default();
    let (class, own) = (text("objectClassName"), text("ldhName"));
    if class != "domain" || !own.trim_end_matches('.').eq_ignore_ascii_case(name) {
        return Err(format!("the answer is not about the domain {}", name).into());
    }
    let is_end = |event: &&str| json::lookup(event, "eventAction") == Some("\"expiration\"");
    let end = items(answer, "events").find(is_end).and_then(|event| json::lookup(event, "eventDate"));
    let end = match end.map(json::text) {
        None => return Err(format!("the registry does not publish when {} ends", name).into()),
        Some(end) => date::parse(&end).ok_or_else(|| Error::new(format!("the answer has the date {:?}", shorten(&end, 40))))?,
    };
    findings.metric("domain_expiry_timestamp_seconds", "s", end as f64);
    let left = (end - now() as i64).div_euclid(86400);
    let by = registrar(answer).map_or(String::new(), |name| format!(" (registrar {})", name));
    let said = match left {
        0.. => format!("ends in {} {}{}", left, if left == 1 { "day" } else { "days" }, by),
        _ => format!("ended {} {} ago{}", -left, if left == -1 { "day" } else { "days" }, by),
    };
    let days = limits(config);
    if left < 0 || (left as f64) < days.fail {
        findings.fail_for("body", said.clone());
    } else if (left as f64) < days.warn {
        findings.warn(said.clone());
    }
    if let Some(state) = items(answer, "status").map(json::text).find(|state| LOST.contains(&state.to_ascii_lowercase().as_str())) {
        findings.fail_for("body", format!("the domain has the status {:?}", state));
    }
    findings.body = said;
    Ok(())
}

/// Returns the name of the registrar, from its jCard (RFC 7095).
fn registrar(answer: &str) -> Option<String> {
    let is_registrar = |entity: &&str| items(entity, "roles").any(|role| role == "\"registrar\"");
    let entity = items(answer, "entities").find(is_registrar)?;
    let card = json::lookup(entity, "vcardArray.1")?;
    let field = (0..MAX_ITEMS).map_while(|i| json::lookup(card, &i.to_string())).find(|f| json::lookup(f, "0") == Some("\"fn\""))?;
    let name = common::peer::shown(json::text(json::lookup(field, "3")?).as_bytes());
    Some(shorten(&name, 80)).filter(|name| !name.is_empty())
}
