//! Tokens of OAuth 2.0 by the grant of client credentials, RFC 6749 section 4.4.

use crate::config::{Budget, Config};
use crate::{has_feature, shorten, web, Findings};
use prober::{digest, http, json, kv, Error, Request, Result};
use std::io::Read;
use std::time::{Instant, SystemTime};

/// The most bytes of a response of the token endpoint.
const MAX_RESPONSE: usize = 64 << 10;

/// The most bytes of a token.
const MAX_TOKEN: usize = 16 << 10;

/// The longest time for which a token is kept.
const MAX_LIFE: f64 = 3600.0;

/// The key of the token in the store of the probe.
const KEY: &str = "oauth2";

/// Checks the field oauth2.
pub fn validate(config: &Config) -> Result<()> {
    if config.get("oauth2").is_none() {
        return Ok(());
    }
    let other = ["basicAuth", "bearerToken", "authorization"].into_iter().find(|name| config.get(name).is_some());
    let header = config.pairs("headers").into_iter().find(|(name, _)| name.eq_ignore_ascii_case("Authorization"));
    match other.map(str::to_owned).or_else(|| header.map(|(name, _)| "headers.".to_owned() + &name)) {
        Some(other) => Err(Error::new(format!("oauth2 and {} are both set, and a request has one Authorization", other))),
        None => Ok(()),
    }
}

/// Why there is no token.
struct Refusal {
    reason: &'static str,
    why: String,
}

/// Where tokens come from.
struct Source {
    sent: http::Request,
    keeps: bool, // whether the operator grants a store
}

/// Sends a request with a token. A response 401 to a token that was kept gets a second request with a new one.
/// start becomes the time of the last request. None means that there is no response, which findings say.
pub fn send(r: &mut http::Request, request: &Request, config: &Config, budget: &Budget, findings: &mut Findings, start: &mut Instant) -> Option<http::Response> {
    let source = match config.get("oauth2") {
        Some(oauth2) => {
            findings.secrets.add(&Config(oauth2).text("clientSecret"));
            Source::of(request, config, Config(oauth2))
        }
        None => return answer(r, budget, findings, start),
    };
    if let Some(token) = source.kept() {
        findings.secrets.add(&token);
        set_token(r, &token);
        let response = answer(r, budget, findings, start)?;
        if response.status() != 401 {
            findings.metric("oauth2_token_time_seconds", "s", 0.0);
            return Some(response);
        }
        source.forget();
    }
    let began = Instant::now();
    match source.fetch(budget) {
        Ok(token) => {
            findings.metric("oauth2_token_time_seconds", "s", began.elapsed().as_secs_f64());
            findings.secrets.add(&token);
            set_token(r, &token);
            answer(r, budget, findings, start)
        }
        Err(refusal) => {
            findings.fail_for(refusal.reason, format!("token: {}", refusal.why));
            None
        }
    }
}

fn answer(r: &mut http::Request, budget: &Budget, findings: &mut Findings, start: &mut Instant) -> Option<http::Response> {
    *start = Instant::now();
    r.timeout = budget.left();
    r.send().map_err(|e| findings.fail(e.to_string())).ok()
}

fn set_token(r: &mut http::Request, token: &str) {
    r.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Authorization"));
    r.headers.push(("Authorization".into(), "Bearer ".to_owned() + token));
}

impl Source {
    fn of(request: &Request, probe: &Config, config: Config) -> Source {
        let mut sent = web::connection(probe);
        sent.tls = crate::config::tls_options(&config);
        sent.options.retain(|(name, _)| *name == "ipFamily" || *name == "sourceAddress");
        sent.method = "POST".into();
        sent.url = config.text("tokenUrl");
        sent.headers.push(("Accept".into(), "application/json".into()));
        sent.headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
        web::add_user_agent(&mut sent, request);
        let mut fields: Vec<(String, String)> = vec![("grant_type".into(), "client_credentials".into())];
        let scopes = config.texts("scopes").join(" ");
        if !scopes.is_empty() {
            fields.push(("scope".into(), scopes));
        }
        fields.extend(config.pairs("parameters"));
        let (id, secret) = (config.text("clientId"), config.text("clientSecret"));
        if config.text("authentication") == "body" {
            fields.push(("client_id".into(), id));
            fields.push(("client_secret".into(), secret));
        } else {
            sent.headers.push(("Authorization".into(), web::basic_auth(&web::escape(&id), &web::escape(&secret))));
        }
        sent.body = web::form(&fields).into_bytes();
        Source { sent, keeps: has_feature(request, "kv") }
    }

    /// Returns what a kept token belongs to: it is not used for another config.
    fn mark(&self) -> String {
        let mut all = self.sent.url.clone().into_bytes();
        for (_, value) in &self.sent.headers {
            all.push(0);
            all.extend_from_slice(value.as_bytes());
        }
        all.push(0);
        all.extend_from_slice(&self.sent.body);
        digest::to_base64(&digest::sha256(&all))
    }

    /// Returns the token of an earlier attempt, if it is still valid.
    fn kept(&self) -> Option<String> {
        if !self.keeps {
            return None;
        }
        let text = String::from_utf8(kv::get(KEY).ok()??).ok()?;
        let fields: Vec<&str> = text.splitn(3, ' ').collect();
        let [mark, end, token] = <[&str; 3]>::try_from(fields).ok()?;
        let left = end.parse::<f64>().ok()? - now();
        (mark == self.mark() && left > 0.0 && left <= MAX_LIFE).then(|| token.into())
    }

    fn forget(&self) {
        let _ = kv::delete(KEY);
    }

    /// Keeps a token for nine tenths of its life. If the store is full, the next attempt asks for another one.
    fn keep(&self, token: &str, life: f64) {
        if self.keeps && life.is_finite() && life > 0.0 {
            let end = now() + (life * 0.9).min(MAX_LIFE);
            let _ = kv::set(KEY, format!("{} {} {}", self.mark(), end, token));
        }
    }

    /// Asks for a token.
    fn fetch(&self, budget: &Budget) -> std::result::Result<String, Refusal> {
        let from = web::shown_url(&self.sent.url);
        prober::progress(&format!("token: waiting for {}", from));
        let mut sent = self.sent.clone();
        sent.timeout = budget.left();
        let failed = |e: std::io::Error| Refusal { reason: "", why: format!("{} from {}", e, from) };
        let mut response = sent.send().map_err(failed)?;
        let mut body = Vec::new();
        (&mut response).take(MAX_RESPONSE as u64 + 1).read_to_end(&mut body).map_err(failed)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        if response.status() != 200 {
            let code = error_code(&body);
            return Err(Refusal { reason: "http_status", why: format!("{}{} from {}", response.status(), code, from) });
        }
        prober::progress("");
        self.token_of(&body).map_err(|why| Refusal { reason: "body", why: format!("{} from {}", why, from) })
    }

    /// Returns the token of a response, and keeps it.
    fn token_of(&self, body: &str) -> std::result::Result<String, String> {
        if body.len() > MAX_RESPONSE {
            return Err(format!("a response of more than {} bytes", MAX_RESPONSE));
        }
        let token = match json::lookup(body, "access_token") {
            Some(value) if value.starts_with('"') && value.len() > 2 => json::text(value),
            _ => return Err("a response without access_token".into()),
        };
        let kind = json::lookup(body, "token_type").map_or_else(|| "Bearer".into(), json::text);
        if !kind.eq_ignore_ascii_case("Bearer") {
            return Err(format!("a token of the type {:?}, want Bearer,", shorten(&kind, 20)));
        }
        if token.len() > MAX_TOKEN {
            return Err(format!("a token of more than {} bytes", MAX_TOKEN));
        }
        if !token.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
            return Err("a token with characters that a header cannot have".into());
        }
        let life = json::lookup(body, "expires_in").and_then(|v| json::text(v).parse().ok());
        self.keep(&token, life.unwrap_or_default());
        Ok(token)
    }
}

/// Returns the error of a response such as " invalid_client", or "".
fn error_code(body: &str) -> String {
    let code = json::lookup(body, "error").map(json::text).unwrap_or_default();
    let plain = code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain && (1..=40).contains(&code.len()) {
        return " ".to_owned() + &code;
    }
    String::new()
}

/// Returns the seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
