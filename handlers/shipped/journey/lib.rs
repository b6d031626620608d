//! The plugin journey: steps of HTTP requests, each of which can use what earlier responses had. Read probe first,
//! then Journey::step.

use common::config::{Budget, Config};
use common::header::values_of;
use common::regexp::{lossy, Regexp};
use common::url::Url;
use common::web::{self, Rules};
use common::Findings;
use prober::{http, json, Error, Request, Result};
use std::time::Instant;

mod cookies;
mod variables;

use cookies::Jar;
use variables::{Variables, MAX_VALUE};

prober::plugin!(probe, validate);

/// The most redirects of a step.
const MAX_REDIRECTS: usize = 10;

/// One step of the config.
struct Step<'a> {
    title: String, // for messages, such as "step 2 login"
    label: String,
    config: Config<'a>,
    rules: Rules,
    extracts: Vec<Extract>,
}

/// A value of a response, which later steps can use.
struct Extract {
    name: String,
    from: From,
    regexp: Option<Regexp>,
}

enum From {
    Body,
    JsonPath(String),
    Header(String),
    Cookie(String),
}

fn steps<'a>(config: &Config<'a>) -> Result<Vec<Step<'a>>> {
    let mut all: Vec<Step> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for (i, config) in config.objects("steps").into_iter().enumerate() {
        let at = |e: Error| Error::new(format!("steps[{}].{}", i, e));
        let name = config.text("name");
        let step = Step {
            title: format!("step {} {}", i + 1, name).trim_end().into(),
            label: if name.is_empty() { (i + 1).to_string() } else { name },
            rules: Rules::of(&config).map_err(at)?,
            extracts: extracts(&config).map_err(at)?,
            config,
        };
        if all.iter().any(|s| s.label == step.label) {
            return Err(Error::new(format!("steps[{}].name: another step is {:?}", i, step.label)));
        }
        if let Some(name) = variables::names(&uses(&step.config)).into_iter().find(|n| !known.iter().any(|k| k == n)) {
            return Err(Error::new(format!("steps[{}]: no earlier step extracts {}", i, name)));
        }
        common::validate_limits(&step.config).map_err(at)?;
        known.extend(step.extracts.iter().map(|e| e.name.clone()));
        all.push(step);
    }
    Ok(all)
}

/// Returns the fields of a step in which variables are replaced, as JSON.
fn uses(config: &Config) -> String {
    let fields = ["url", "method", "headers", "body", "form", "json", "basicAuth", "bearerToken"];
    json::object(fields.into_iter().filter_map(|name| Some((name, config.get(name)?.to_owned()))))
}

fn extracts(config: &Config) -> Result<Vec<Extract>> {
    let mut all = Vec::new();
    for (i, e) in config.objects("extract").into_iter().enumerate() {
        let field = format!("extract[{}].regexp", i);
        let from = match ["jsonPath", "header", "cookie"].into_iter().find(|name| e.get(name).is_some()) {
            Some("jsonPath") => From::JsonPath(e.text("jsonPath")),
            Some("header") => From::Header(e.text("header")),
            Some(_) => From::Cookie(e.text("cookie")),
            None => From::Body,
        };
        let regexp = match e.get("regexp") {
            Some(text) => Some(Regexp::at(&field, &json::text(text))?),
            None => None,
        };
        all.push(Extract { name: e.text("name"), from, regexp });
    }
    Ok(all)
}

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    steps(&config)?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let steps = steps(&config)?;
    let base = Url::parse(&config.text("url"), "http").ok_or_else(|| Error::new("url: it is not a URL"))?;
    let start = Instant::now();
    let findings = Findings::of(request);
    let budget = Budget::of(&config)?;
    let mut journey = Journey { request, config: &config, base, budget, findings, jar: Jar::default(), variables: Variables::new() };
    let mut failed = 0;
    for (i, step) in steps.iter().enumerate() {
        if failed == 0 || step.config.flag("always") {
            let passed = journey.step(step)?;
            failed = if failed == 0 && !passed { i + 1 } else { failed };
        }
    }
    let took = start.elapsed();
    let mut findings = journey.findings;
    findings.metric("journey_duration_seconds", "s", took.as_secs_f64());
    findings.metric("journey_failed_step", "", failed as f64);
    common::check_latency(&mut findings, &config, took)?;
    Ok(findings.outcome(format!("{} steps in {} ms", steps.len(), took.as_millis())))
}

/// The state of an attempt between its steps.
struct Journey<'a> {
    request: &'a Request,
    config: &'a Config<'a>,
    base: Url,
    budget: Budget,
    findings: Findings,
    jar: Jar,
    variables: Variables,
}

/// A response, with the URL that was asked for last.
struct Arrival {
    response: http::Response,
    url: Url,
    redirects: usize,
}

impl Journey<'_> {
    /// Carries out a step, and adds what it finds. It reports whether the step passed.
    fn step(&mut self, step: &Step) -> Result<bool> {
        let start = Instant::now();
        let mut found = Findings::of(self.request);
        std::mem::swap(&mut found.secrets, &mut self.findings.secrets);
        let mut title = step.title.clone();
        match self.to_send(&step.config) {
            Ok((r, url)) => {
                title = format!("{}: {} {}", title, r.method, shown(&step.config));
                self.carry_out(step, r, url, &title, &mut found)?;
            }
            Err(why) => found.fail(why),
        }
        let took = start.elapsed();
        common::check_latency(&mut found, &step.config, took)?;
        let passed = found.passed();
        let label = [("step", step.label.as_str())];
        self.findings.labelled("journey_step_duration_seconds", "s", took.as_secs_f64(), &label);
        self.findings.absorb(found, &title);
        Ok(passed)
    }

    /// Sends a request, checks the response and extracts values.
    fn carry_out(&mut self, step: &Step, r: http::Request, url: Url, title: &str, found: &mut Findings) -> Result<()> {
        prober::progress(&format!("{}: waiting for the response", title));
        let budget = Budget::of(&step.config)?;
        let arrival = self.follow(step, r, url, &budget);
        for value in self.jar.values() {
            found.secrets.add(value);
        }
        let mut arrival = match arrival {
            Ok(arrival) => arrival,
            Err(why) => {
                found.fail(why);
                return Ok(());
            }
        };
        let status = arrival.response.status();
        self.findings.labelled("journey_step_status_code", "", f64::from(status), &[("step", &step.label)]);
        self.hide(step, found, arrival.response.head(), "");
        step.rules.check_status(found, status, &arrival.after());
        if found.passed() {
            step.rules.check_headers(found, arrival.response.head());
        }
        let from_body = |e: &Extract| matches!(e.from, From::Body | From::JsonPath(_));
        let keep = found.passed() && (step.rules.body() || step.extracts.iter().any(from_body));
        let body = step.rules.read_body(found, &mut arrival.response, keep);
        prober::progress("");
        let text = lossy(&body.data);
        self.hide(step, found, arrival.response.head(), &text);
        if found.passed() && step.rules.body() {
            step.rules.check_body(found, &text);
        }
        for extract in &step.extracts {
            if !found.passed() {
                break;
            }
            match self.value(extract, arrival.response.head(), &text) {
                Ok(value) => {
                    found.secrets.add(&value);
                    self.variables.insert(extract.name.clone(), value);
                }
                Err(why) => found.fail_for("body", format!("no value for {}: {}", extract.name, why)),
            }
        }
        Ok(())
    }

    /// Hides what a step extracts, before a rule that fails shows a part of the response.
    fn hide(&self, step: &Step, found: &mut Findings, head: &str, body: &str) {
        for value in step.extracts.iter().filter_map(|e| self.value(e, head, body).ok()) {
            found.secrets.add(&value);
        }
    }

    /// Sends a request and follows redirects, with the cookies of the journey.
    fn follow(&mut self, step: &Step, mut r: http::Request, mut url: Url, budget: &Budget) -> std::result::Result<Arrival, String> {
        let own_cookies = header(&r, "Cookie");
        let mut redirects = 0;
        loop {
            r.url = url.to_string();
            r.timeout = [self.budget.left(), budget.left()].into_iter().flatten().min();
            let asked = url.on_target(self.request);
            let cookies = [if redirects == 0 { own_cookies.as_str() } else { "" }, &self.jar.header(&asked)];
            let cookies: Vec<&str> = cookies.into_iter().filter(|c| !c.is_empty()).collect();
            remove_header(&mut r, "Cookie");
            if !cookies.is_empty() {
                r.headers.push(("Cookie".into(), cookies.join("; ")));
            }
            let after = after(&url, redirects);
            let response = r.send().map_err(|e| format!("{}{}", e, after))?;
            self.jar.store(response.head(), &asked);
            let arrival = Arrival { response, url, redirects };
            if step.config.get("followRedirects") == Some("false") || redirects == MAX_REDIRECTS {
                return Ok(arrival);
            }
            url = match arrival.location(&asked) {
                Some(next) => next,
                None => return Ok(arrival),
            };
            let same = asked.origin() == url.origin();
            if same && arrival.url.authority.is_empty() {
                url.authority.clear(); // the target may be a unix socket
            }
            redirect(&mut r, arrival.response.status(), same).map_err(|e| format!("{}{}", e, web::shown_url(&url.to_string())))?;
            redirects += 1;
        }
    }

    /// Returns the request of a step, whose method is set, and its URL.
    fn to_send(&self, config: &Config) -> std::result::Result<(http::Request, Url), String> {
        let unset = |name: String| format!("no value for {}: its step did not pass", name);
        let in_json = |text: &str| {
            let quoted = json::quote(text);
            quoted[1..quoted.len() - 1].to_owned()
        };
        let expanded = variables::expand(&uses(config), &self.variables, in_json).map_err(unset)?;
        let filled = Config(&expanded);
        let mut r = web::connection(self.config);
        web::add_headers(&mut r, self.request, &filled);
        let (body, kind) = match (filled.get("json"), filled.get("form")) {
            (Some(doc), _) => (doc.to_owned(), "application/json"),
            (None, Some(_)) => (web::form(&filled.pairs("form")), "application/x-www-form-urlencoded"),
            (None, None) => (filled.text("body"), ""),
        };
        if !kind.is_empty() && !web::has_header(&r, "Content-Type") {
            r.headers.push(("Content-Type".into(), kind.into()));
        }
        r.method = match filled.text("method").as_str() {
            "" if body.is_empty() => "GET".into(),
            "" => "POST".into(),
            method => method.into(),
        };
        r.body = body.into_bytes();
        let reference = config.text("url");
        let whole = reference.starts_with("${") && reference.find('}') == Some(reference.len() - 1);
        let encode = if whole { str::to_owned } else { web::escape };
        let reference = variables::expand(&reference, &self.variables, encode).map_err(unset)?;
        let url = self.base.join(&reference).filter(|u| u.scheme == "http" || u.scheme == "https").ok_or("it is not a URL of HTTP")?;
        if whole && url.on_target(self.request).origin() != self.base.on_target(self.request).origin() {
            without_secrets(&mut r); // a response has chosen the host
            if !r.body.is_empty() {
                return Err("the body is not sent to a host that a response names".into());
            }
        }
        Ok((r, url))
    }

    /// Returns the value that a step extracts from a response, or why there is none.
    fn value(&self, extract: &Extract, head: &str, body: &str) -> std::result::Result<String, String> {
        let mut value = match &extract.from {
            From::Body => body.to_owned(),
            From::JsonPath(path) => common::path::find(body, path).map(json::text).ok_or_else(|| format!("the body has no {}", path))?,
            From::Header(name) => {
                values_of(head, &name.to_ascii_lowercase()).into_iter().next().ok_or_else(|| format!("the header {} is missing", name))?
            }
            From::Cookie(name) => self.jar.value(name).ok_or_else(|| format!("there is no cookie {}", name))?.to_owned(),
        };
        if let Some(r) = &extract.regexp {
            value = r.group(&value).ok_or_else(|| format!("nothing matches {:?}", r.text))?;
        }
        match value.len() {
            0 => Err("the value is empty".into()),
            n if n > MAX_VALUE => Err(format!("the value has more than {} bytes", MAX_VALUE)),
            _ if value.chars().any(char::is_control) => Err("the value has control characters".into()),
            _ => Ok(value),
        }
    }
}

impl Arrival {
    /// Returns where a redirect leads; None for another response.
    fn location(&self, url: &Url) -> Option<Url> {
        if !matches!(self.response.status(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let next = url.join(&self.response.header("location")?)?;
        Some(next).filter(|u| u.scheme == "http" || u.scheme == "https")
    }

    fn after(&self) -> String {
        after(&self.url, self.redirects)
    }
}

/// Returns from where a response came, if redirects led there.
fn after(url: &Url, redirects: usize) -> String {
    match redirects {
        0 => String::new(),
        n => format!(", after redirect {} to {}", n, web::shown_url(&url.to_string())),
    }
}

/// Changes a request to that of a redirect, as browsers do. Whatever may be a secret stays with its origin. It returns
/// an error if the body does not.
fn redirect(r: &mut http::Request, status: u16, same_origin: bool) -> std::result::Result<(), &'static str> {
    let keeps_body = matches!(status, 307 | 308) || r.method == "GET" || r.method == "HEAD";
    if !keeps_body {
        r.method = "GET".into();
        r.body.clear();
        remove_header(r, "Content-Type");
    }
    if same_origin {
        return Ok(());
    }
    without_secrets(r);
    if r.body.is_empty() {
        return Ok(());
    }
    Err("the body is not sent to another host after a redirect: ")
}

/// Removes headers that may have secrets.
fn without_secrets(r: &mut http::Request) {
    let harmless = ["user-agent", "accept", "accept-language", "content-type"];
    r.headers.retain(|(name, _)| harmless.contains(&name.to_ascii_lowercase().as_str()));
}

fn header(r: &http::Request, name: &str) -> String {
    r.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone()).unwrap_or_default()
}

fn remove_header(r: &mut http::Request, name: &str) {
    r.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
}

/// Returns the URL of a step for messages: as it is in the config, without its query.
fn shown(config: &Config) -> String {
    let url = config.text("url");
    let path = url.split(['?', '#'].as_slice()).next().unwrap_or_default();
    if path.contains("://") {
        return web::shown_url(path);
    }
    common::shorten(path, 200)
}
