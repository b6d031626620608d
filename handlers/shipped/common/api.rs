//! Requests to an API over HTTP, whose answers are bounded. Read ask first.

use crate::config::{tls_options, Config};
use crate::peer::{conclude, shown, Error, Result};
use crate::{tls, web, Findings};
use prober::{http, json, Request};
use std::io::{self, Read};
use std::time::Instant;

/// The most bytes of an answer that are kept, if a plugin has no other limit.
const MAX_ANSWER: usize = 512 << 10;

/// The bytes from which on the message of an unfinished answer does not follow each part.
const MANY: usize = 1024;

/// A server whose API is asked.
pub struct Api<'a> {
    pub request: &'a Request,
    pub config: &'a Config<'a>,
    pub findings: Findings,
    /// The headers of every request.
    pub headers: Vec<(String, String)>,
    /// The name in the certificate; "" for the host of the URL.
    pub server_name: String,
    /// The most bytes of an answer that are kept.
    pub most: usize,
    tls: Option<String>, // how the first answer came, as JSON of the host
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// The body, or its beginning.
    pub body: String,
    response: http::Response,
}

/// Calls talk, and checks certificates and latency. talk returns the message of a Success.
pub fn ask(request: &Request, talk: impl FnOnce(&mut Api) -> Result<String>) -> prober::Result {
    let config = Config::of(request);
    let start = Instant::now();
    let (headers, server_name) = (Vec::new(), String::new());
    let mut api = Api { request, config: &config, findings: Findings::default(), headers, server_name, most: MAX_ANSWER, tls: None };
    let said = talk(&mut api);
    let took = start.elapsed();
    let mut findings = api.findings;
    if let Some(info) = api.tls {
        tls::metrics(&mut findings, &info);
        tls::check_age(&mut findings, &config, &info)?;
    }
    conclude(findings, &config, said, took)
}

impl Api<'_> {
    /// Sends a request to a path of the target, and returns the answer, whatever its status is.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let step = format!("{} {}", method, path.split('?').next().unwrap_or_default());
        let scheme = if self.config.flag("tls") { "https" } else { "http" };
        let mut r = http::Request {
            method: method.into(),
            url: format!("{}://{}", scheme, path),
            headers: self.headers.clone(),
            body: body.as_bytes().to_vec(),
            tls: self.tls_options(),
            ..Default::default()
        };
        web::add_user_agent(&mut r, self.request);
        prober::progress(&format!("no answer to {}", step));
        let failed = |e: io::Error| Error::Io(io::Error::new(e.kind(), format!("{}: {}", step, e)));
        let response = r.send().map_err(failed)?;
        if self.tls.is_none() {
            self.tls = json::lookup(response.head(), "tls").map(str::to_owned);
        }
        let mut answer = Answer { status: response.status(), body: String::new(), response };
        answer.read(&step, self.most).map_err(failed)?;
        Ok(answer)
    }

    fn tls_options(&self) -> String {
        let options = tls_options(self.config);
        if self.server_name.is_empty() || json::lookup(&options, "serverName").is_some() {
            return options;
        }
        let mut fields: Vec<(String, String)> = json::fields(&options).into_iter().map(|(name, value)| (name, value.into())).collect();
        fields.push(("serverName".into(), json::quote(&self.server_name)));
        json::object(fields.iter().map(|(name, value)| (name.as_str(), value.clone())))
    }
}

impl Answer {
    /// Reads the body, and leaves out what is beyond the most bytes.
    fn read(&mut self, step: &str, most: usize) -> io::Result<()> {
        let (mut data, mut chunk, mut told) = (Vec::new(), [0; 8 << 10], 0);
        loop {
            // An answer may come in a great many parts.
            if data.len() < MANY || data.len() >= told + MANY {
                told = data.len();
                let least = if told < MANY { "" } else { "at least " };
                prober::progress(&format!("unfinished answer to {}: HTTP status {}, {}{} bytes", step, self.status, least, told));
            }
            let n = self.response.read(&mut chunk)?;
            data.extend_from_slice(&chunk[..n.min(most - data.len())]);
            if n == 0 || data.len() == most {
                break;
            }
        }
        prober::progress("");
        self.body = String::from_utf8(data).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Ok(())
    }

    /// Returns a header by its name in lower case, or "".
    pub fn header(&self, name: &str) -> String {
        self.response.header(name).unwrap_or_default()
    }

    /// Reports whether the body begins as an object of JSON does.
    pub fn is_object(&self) -> bool {
        self.body.trim_start().starts_with('{')
    }

    /// Returns the value at a path of the body, a string without its quotes; "" without one.
    pub fn text(&self, path: &str) -> String {
        json::lookup(&self.body, path).map(json::text).unwrap_or_default()
    }

    /// Returns a number of the body, which may be in quotes; 0 without one.
    pub fn number(&self, path: &str) -> f64 {
        self.text(path).parse().ok().filter(|n: &f64| n.is_finite()).unwrap_or_default()
    }

    /// Returns the status with a text, such as the start of the body, for a message.
    pub fn says(&self, text: &str) -> String {
        match shown(text.as_bytes()) {
            text if text.is_empty() => format!("HTTP status {}", self.status),
            text => format!("HTTP status {}: {}", self.status, text),
        }
    }
}
