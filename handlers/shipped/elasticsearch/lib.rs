//! The plugin elasticsearch: asks Elasticsearch or OpenSearch for the health of the cluster, and for the shards that
//! are not assigned. Read talk first.

use common::api::{ask, Answer, Api};
use common::bounds;
use common::config::Config;
use common::peer::{shown, Error, Result};
use common::web;
use prober::{json, Request};

prober::plugin!(probe, validate);

/// The most shards that a message names.
const MAX_NAMED: usize = 5;

/// The part of the time that is left for which the server may wait for the elected master.
const WAIT: f64 = 0.8;

/// The numbers of a health: its field, the metric, and where it may have bounds, the field of the config and the name
/// in messages.
const NUMBERS: [(&str, &str, &str, &str); 9] = [
    ("number_of_nodes", "nodes", "nodes", "the number of nodes"),
    ("number_of_data_nodes", "data_nodes", "dataNodes", "the number of data nodes"),
    ("active_primary_shards", "active_primary_shards", "", ""),
    ("active_shards", "active_shards", "", ""),
    ("relocating_shards", "relocating_shards", "", ""),
    ("initializing_shards", "initializing_shards", "", ""),
    ("unassigned_shards", "unassigned_shards", "unassignedShards", "the number of unassigned shards"),
    ("number_of_pending_tasks", "pending_tasks", "pendingTasks", "the number of pending tasks"),
    ("active_shards_percent_as_number", "active_shards_percent", "activeShardsPercent", "the percentage of active shards"),
];

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &[])?;
    if config.get("username").is_some() && config.get("apiKey").is_some() {
        return Err("apiKey: not with username".into());
    }
    if config.get("minVersion").is_some() {
        version(&config.text("minVersion")).ok_or_else(|| prober::Error::new("minVersion: must be such as 8.11.0"))?;
    }
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    ask(request, talk)
}

fn talk(api: &mut Api) -> Result<String> {
    api.headers.push(("Accept".into(), "application/json".into()));
    log_in(api);
    let product = product(api)?;
    let index = api.config.text("index");
    let path = if index.is_empty() { "/_cluster/health".into() } else { format!("/_cluster/health/{}", escaped(&index)) };
    let wait = prober::deadline().map_or(30000, |left| (left.as_secs_f64() * 1000.0 * WAIT) as u64).max(1);
    // timeout is how long the server waits for the index.
    let answer = api.call("GET", &format!("{}?master_timeout={}ms&timeout={}ms", path, wait, wait), "")?;
    if let Some(why) = refusal(&answer) {
        return Err(Error::Refused(format!("GET {}: {}", path, why)));
    }
    health(api, &answer, &index, &product)
}

fn log_in(api: &mut Api) {
    let (user, key) = (api.config.text("username"), api.config.text("apiKey"));
    if !key.is_empty() {
        // A key is shown as id:secret, or encoded already.
        let encoded = if key.contains(':') { prober::digest::to_base64(key.as_bytes()) } else { key };
        api.findings.secrets.add(&encoded);
        api.headers.push(("Authorization".into(), format!("ApiKey {}", encoded)));
    } else if !user.is_empty() {
        api.headers.push(("Authorization".into(), web::basic_auth(&user, &api.config.text("password"))));
    }
}

/// Asks for the product and its version where the config has a field about them, and returns them for the message.
fn product(api: &mut Api) -> Result<String> {
    if ["product", "minVersion"].iter().all(|name| api.config.get(name).is_none()) {
        return Ok(String::new());
    }
    let answer = api.call("GET", "/", "")?;
    if let Some(why) = refusal(&answer) {
        return Err(Error::Refused(format!("GET /: {}", why)));
    }
    let number = shown(answer.text("version.number").as_bytes());
    if number.is_empty() {
        return Err(Error::Protocol(format!("not Elasticsearch: GET /: {}", answer.says(&answer.body))));
    }
    let name = if answer.text("version.distribution") == "opensearch" { "opensearch" } else { "elasticsearch" };
    let (want, least) = (api.config.text("product"), api.config.text("minVersion"));
    if !want.is_empty() && want != name {
        api.findings.fail_for("body", format!("the product is {}, want {}", name, want));
    }
    if !least.is_empty() && version(&number) < version(&least) {
        api.findings.fail_for("body", format!("the version is {}, want at least {}", number, least));
    }
    Ok(format!("{} {}, ", name, number))
}

/// Returns the numbers of a version such as 8.11.0-SNAPSHOT.
fn version(text: &str) -> Option<Vec<u32>> {
    let numbers = text.split('-').next().unwrap_or_default().split('.').map(|n| n.parse().ok());
    numbers.collect()
}

/// Returns why an answer is not the wanted one, None if it may be.
fn refusal(answer: &Answer) -> Option<String> {
    let kind = answer.text("error.type");
    let reason = [answer.text("error.reason"), answer.text("error.root_cause.0.reason"), kind.clone()];
    let reason = reason.iter().find(|text| !text.is_empty()).map_or("", String::as_str);
    match (answer.status, kind.as_str()) {
        (_, "master_not_discovered_exception" | "cluster_manager_not_discovered_exception") => Some("the cluster has no elected master".into()),
        (200 | 408, "") if answer.is_object() => None,
        _ if !reason.is_empty() => Some(answer.says(reason)),
        (200, _) => Some("the answer is not JSON".into()),
        _ => Some(answer.says(&answer.body)),
    }
}

/// Checks the health of the cluster or of an index. product begins the message of a Success.
fn health(api: &mut Api, answer: &Answer, index: &str, product: &str) -> Result<String> {
    let (name, status) = (shown(answer.text("cluster_name").as_bytes()), answer.text("status"));
    let level = match ["green", "yellow", "red"].iter().position(|s| *s == status) {
        Some(level) if !name.is_empty() => level,
        _ => return Err(Error::Protocol(format!("not Elasticsearch: GET /_cluster/health: {}", answer.says(&answer.body)))),
    };
    let want = api.config.text("clusterName");
    if !want.is_empty() && want != name {
        api.findings.fail_for("body", format!("the cluster is {}, want {}", name, want));
    }
    if !index.is_empty() && answer.text("timed_out") == "true" && answer.number("active_shards") == 0.0 {
        return Err(Error::Refused(format!("the cluster {} has no index {}", name, index)));
    }
    api.findings.metric("status", "", level as f64);
    for (field, metric, bound, name) in NUMBERS {
        let value = answer.number(field);
        api.findings.metric(metric, if metric.ends_with("percent") { "percent" } else { "" }, value);
        if !bound.is_empty() {
            bounds::check(&mut api.findings, api.config, bound, name, &value.to_string());
        }
    }
    let what = if index.is_empty() { format!("the cluster {}", name) } else { format!("the index {}", index) };
    let success = format!("{}{} is {}, {}", product, what, status, counted(answer.number("number_of_nodes"), "node"));
    let severity = if level == 1 { api.config.text("yellow") } else { String::new() };
    if level == 0 || severity == "success" {
        return Ok(success);
    }
    let why = format!("{} is {}: {}", what, status, unassigned(api, answer, index));
    match severity.as_str() {
        "warning" => api.findings.warn(why),
        _ => api.findings.fail_for("body", why),
    }
    Ok(success)
}

/// Returns how many shards are not assigned, and names the first ones, primary shards before replicas.
fn unassigned(api: &mut Api, health: &Answer, index: &str) -> String {
    let (missing, active, starting) = (health.number("unassigned_shards"), health.number("active_shards"), health.number("initializing_shards"));
    if missing == 0.0 {
        return format!("{} initializing", counted(starting, "shard"));
    }
    let count = format!("{} of {} not assigned", missing, counted(missing + active + starting, "shard"));
    // In this order the shards that are not assigned come first, so that the start of a long answer is enough.
    let query = "format=json&h=index,shard,prirep,state,unassigned.reason&s=state:desc,prirep,index,shard";
    let path = if index.is_empty() { "/_cat/shards".into() } else { format!("/_cat/shards/{}", escaped(index)) };
    let answer = match api.call("GET", &format!("{}?{}", path, query), "") {
        Ok(answer) => answer,
        Err(e) => return format!("{}; {}", count, e),
    };
    let rows: Vec<String> = (0..MAX_NAMED).map_while(|i| json::lookup(&answer.body, &i.to_string())).filter_map(named).collect();
    if answer.status != 200 || rows.is_empty() {
        let why = refusal(&answer).unwrap_or_else(|| answer.says(""));
        return format!("{}, which GET {} does not name: {}", count, path, why);
    }
    let more = missing - rows.len() as f64;
    let more = if more > 0.0 { format!(" and {} more", more) } else { String::new() };
    format!("{}: {}{}", count, rows.join(", "), more)
}

/// Returns a shard for a message, None if it is assigned.
fn named(row: &str) -> Option<String> {
    let text = |name: &str| json::fields(row).into_iter().find(|(n, _)| n == name).map_or(String::new(), |(_, value)| shown(json::text(value).as_bytes()));
    if text("state") != "UNASSIGNED" {
        return None;
    }
    let kind = if text("prirep") == "p" { "primary" } else { "replica" };
    Some(format!("{}[{}] {} ({})", text("index"), text("shard"), kind, text("unassigned.reason")))
}

/// Returns a number with its noun.
fn counted(n: f64, noun: &str) -> String {
    format!("{} {}{}", n, noun, if n == 1.0 { "" } else { "s" })
}

/// Returns the name of indices as part of a path. A comma and a star are not escaped.
fn escaped(index: &str) -> String {
    web::escape(index).replace("%2C", ",").replace("%2A", "*")
}
