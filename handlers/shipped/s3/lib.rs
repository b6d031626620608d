//! The plugin s3: asks a server of the S3 API for a bucket, an object, or the objects below a prefix, and checks the
//! age and size of the object, or of the newest one. Read talk first.

use common::api::{ask, Answer, Api};
use common::bounds;
use common::config::Config;
use common::peer::{shown, Error, Result};
use common::{check_bound, date, shorten, validate_bounds};
use prober::{time, Request};
use std::time::Duration;

mod sign;
mod xml;

use sign::{Signer, EMPTY};

prober::plugin!(probe, validate);

/// The most bytes of a page of a list, which has 1000 objects.
const MAX_PAGE: usize = 2 << 20;

/// The objects of a page.
const PAGE: &str = "1000";

/// The difference of clocks from which on AWS refuses a request, in seconds.
const MAX_SKEW: i64 = 900;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    let has = |name: &str| config.get(name).is_some();
    if has("accessKeyId") != has("secretAccessKey") {
        return Err("accessKeyId, secretAccessKey: one needs the other".into());
    }
    for (field, needs) in [("sessionToken", &["accessKeyId"][..]), ("age", &["key", "prefix"]), ("size", &["key", "prefix"]), ("count", &["prefix"]), ("maxObjects", &["prefix"])] {
        if has(field) && !needs.iter().any(|name| has(name)) {
            return Err(format!("{}: needs {}", field, needs.join(" or ")).into());
        }
    }
    if has("key") && has("prefix") {
        return Err("prefix: not with key".into());
    }
    validate_bounds(&config, "age")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    ask(request, talk)
}

fn talk(api: &mut Api) -> Result<String> {
    api.most = MAX_PAGE;
    let mut server = Server::of(api);
    if api.config.get("prefix").is_some() {
        return newest(api, &mut server);
    }
    let key = api.config.text("key");
    let answer = server.call(api, "HEAD", &key, &[], false)?;
    if answer.status != 200 {
        return Err(explain(api, &mut server, &key, &answer));
    }
    if key.is_empty() {
        return Ok(format!("the bucket {} exists", server.bucket));
    }
    let changed = answer.header("last-modified");
    let changed = date::http_date(&changed).ok_or_else(|| Error::Protocol(format!("not S3: the object {} has the date {:?}", shown(key.as_bytes()), shown(changed.as_bytes()))))?;
    let size = answer.header("content-length").parse().unwrap_or_default();
    let object = xml::Object { key, changed, size };
    Ok(check(api, &server, &object, "the object"))
}

/// How requests reach a bucket.
struct Server {
    bucket: String,
    host: String,   // the header Host
    prefix: String, // the beginning of all paths
    skew: i64,      // how many seconds the own clock is ahead
    now: i64,       // the server's time, in seconds since 1970
}

impl Server {
    fn of(api: &mut Api) -> Server {
        let (bucket, name, port) = (api.config.text("bucket"), api.config.text("host"), api.request.port());
        let virtual_host = api.config.text("style") == "virtual-host";
        let own = if name.is_empty() { api.request.host() } else { name.clone() };
        let own = if own.is_empty() { "localhost".into() } else { own };
        let own = if virtual_host { format!("{}.{}", bucket, own) } else { own };
        if virtual_host || !name.is_empty() {
            api.server_name = own.clone();
        }
        let usual = if api.config.flag("tls") { 443 } else { 80 };
        let own = if own.contains(':') { format!("[{}]", own) } else { own };
        let host = if port == usual || !api.request.unix().is_empty() { own } else { format!("{}:{}", own, port) };
        let prefix = if virtual_host { String::new() } else { format!("/{}", bucket) };
        Server { bucket, host, prefix, skew: 0, now: 0 }
    }

    /// Sends a signed request for an object, or for the bucket if key is "". start asks for the first byte alone.
    fn call(&mut self, api: &mut Api, method: &str, key: &str, fields: &[(&str, &str)], start: bool) -> Result<Answer> {
        let text = |name: &str| api.config.text(name);
        let now = time::now().map_err(Error::Io)?.as_secs() as i64;
        let stamp = sign::stamp(&time::Utc::from_unix(now));
        let path = match (self.prefix.as_str(), key) {
            (prefix, "") if !prefix.is_empty() => prefix.into(),
            (prefix, key) => sign::path(&format!("{}/{}", prefix, key)),
        };
        let query = sign::query(fields);
        let mut headers = vec![("Host".into(), self.host.clone())];
        if start {
            headers.push(("Range".into(), "bytes=0-0".into()));
        }
        let access_key = text("accessKeyId");
        if !access_key.is_empty() {
            headers.push(("X-Amz-Content-Sha256".into(), EMPTY.into()));
            headers.push(("X-Amz-Date".into(), stamp.clone()));
            let token = text("sessionToken");
            if !token.is_empty() {
                headers.push(("X-Amz-Security-Token".into(), token));
            }
            let (secret_key, region) = (text("secretAccessKey"), text("region"));
            let signer = Signer { access_key: &access_key, secret_key: &secret_key, region: &region, service: "s3" };
            let signature = signer.authorization(method, &path, &query, &headers, &stamp);
            headers.push(("Authorization".into(), signature));
        }
        api.headers = headers;
        let mark = if query.is_empty() { "" } else { "?" };
        let answer = api.call(method, &format!("{}{}{}", path, mark, query), "")?;
        let theirs = date::http_date(&answer.header("date"));
        self.now = theirs.unwrap_or(now);
        self.skew = now - self.now;
        if theirs.is_some() && fields.iter().all(|(name, _)| *name != "continuation-token") && !start {
            api.findings.metric("clock_skew_seconds", "s", self.skew as f64);
        }
        Ok(answer)
    }
}

/// Returns the error of an answer to HEAD, which has no body. A GET for one byte or one object has the reason.
fn explain(api: &mut Api, server: &mut Server, key: &str, head: &Answer) -> Error {
    let said = if key.is_empty() {
        server.call(api, "GET", "", &[("list-type", "2"), ("max-keys", "1")], true)
    } else {
        server.call(api, "GET", key, &[], true)
    };
    let what = if key.is_empty() { format!("the bucket {}", server.bucket) } else { format!("the object {}", shown(key.as_bytes())) };
    match said {
        Ok(answer) if answer.status == head.status => refusal(server, &answer, &what),
        Ok(_) => refusal(server, head, &what),
        Err(e) => Error::Refused(format!("{}: {}; {}", what, head.says(""), e)),
    }
}

/// Returns the error of an answer that is not the wanted one.
fn refusal(server: &Server, answer: &Answer, what: &str) -> Error {
    let part = |name: &str| shown(xml::text(&answer.body, name).unwrap_or_default().as_bytes());
    let (code, message) = (part("Code"), part("Message"));
    let mut why = match (code.as_str(), message.as_str()) {
        ("", _) => answer.says(&answer.body),
        (code, "") => answer.says(code),
        (code, message) => answer.says(&format!("{}: {}", code, message)),
    };
    if code == "RequestTimeTooSkewed" || answer.status == 403 && server.skew.abs() > MAX_SKEW {
        let side = if server.skew < 0 { "behind" } else { "ahead of" };
        why += &format!("; the clock of this host is {} s {} the server's", server.skew.abs(), side);
    }
    let region = [shown(answer.header("x-amz-bucket-region").as_bytes()), part("Region")].into_iter().find(|r| !r.is_empty());
    if let Some(region) = region.filter(|_| matches!(answer.status, 301 | 307 | 400)) {
        why += &format!("; the bucket is in the region {}", region);
    }
    Error::Refused(format!("{}: {}", what, why))
}

/// Checks the newest object below the prefix.
fn newest(api: &mut Api, server: &mut Server) -> Result<String> {
    let prefix = api.config.text("prefix");
    let most = api.config.number("maxObjects").unwrap_or(10000.0);
    let mut found: Option<xml::Object> = None;
    let (mut count, mut token) = (0.0, String::new());
    loop {
        let mut fields = vec![("list-type", "2"), ("max-keys", PAGE), ("prefix", &prefix)];
        if !token.is_empty() {
            fields.push(("continuation-token", &token));
        }
        let answer = server.call(api, "GET", "", &fields, false)?;
        if answer.status != 200 {
            return Err(refusal(server, &answer, &format!("the bucket {}", server.bucket)));
        }
        let page = xml::page(&answer.body).map_err(|why| Error::Protocol(format!("not S3: the list of the bucket {}: {}", server.bucket, why)))?;
        count += page.count as f64;
        let is_newer = |o: &xml::Object| found.as_ref().map_or(true, |f| o.changed > f.changed);
        if page.newest.as_ref().map_or(false, is_newer) {
            found = page.newest;
        }
        match page.next {
            None => break,
            Some(_) if count >= most => return Err(Error::Refused(format!("{} has more than {} objects below {:?}: the newest is not known", server.bucket, most, prefix))),
            Some(next) if next == token || page.count == 0 => return Err(Error::Protocol("not S3: the list does not go on".into())),
            Some(next) => token = next,
        }
    }
    api.findings.metric("objects", "", count);
    bounds::check(&mut api.findings, api.config, "count", "the number of objects", &count.to_string());
    match found {
        Some(object) => Ok(check(api, server, &object, &format!("the newest of {} objects,", count))),
        None => Err(Error::Refused(format!("the bucket {} has no object below {:?}", server.bucket, prefix))),
    }
}

/// Checks the age and size of an object, and returns the message of a Success. what names it with its key.
fn check(api: &mut Api, server: &Server, object: &xml::Object, what: &str) -> String {
    let what = format!("{} {}", what, shown(shorten(&object.key, 100).as_bytes()));
    let age = (server.now - object.changed).max(0) as u64;
    api.findings.metric("object_age_seconds", "s", age as f64);
    api.findings.metric("object_size", "bytes", object.size as f64);
    let old = format!("{} is {} old", what, spoken(age));
    check_bound(&mut api.findings, api.config, "age", Duration::from_secs(age), |limit| format!("{}, more than {}", old, limit));
    bounds::check(&mut api.findings, api.config, "size", &format!("the size of {}", what), &object.size.to_string());
    format!("{}, {} bytes", old, object.size)
}

/// Returns a time in its two largest units, such as 26h 3m.
fn spoken(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..=119 => format!("{}s", seconds),
        120..=7199 => format!("{}m {}s", minutes, seconds % 60),
        7200..=172799 => format!("{}h {}m", hours, minutes % 60),
        _ => format!("{}d {}h", hours / 24, hours % 24),
    }
}
