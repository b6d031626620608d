//! The plugin dns: what blackbox_exporter's dns module checks, with its metrics, over UDP, TCP and TLS.
//! Read probe first; message.rs has the questions and answers as bytes.

use common::config::{tls_options, Budget, Config};
use common::regexp::Regexp;
use common::{ip_family, shorten, Findings};
use message::{Question, Record, Response};
use prober::net::{self, Conn};
use prober::{json, Request, Result};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

mod message;

prober::plugin!(probe, validate);

/// How long an answer over UDP is waited for, before the question is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The expressions for one section of an answer.
struct Rules {
    section: &'static str,
    fails: Vec<Regexp>,
    needs_all: Vec<Regexp>,
    needs: Vec<Regexp>,
    needs_one: Vec<Regexp>,
}

fn rules(config: &Config) -> Result<Vec<Rules>> {
    let mut all = Vec::new();
    for (field, section) in [("validateAnswerRrs", "answer"), ("validateAuthorityRrs", "authority"), ("validateAdditionalRrs", "additional")] {
        let rule = Config(config.get(field).unwrap_or("{}"));
        all.push(Rules {
            section,
            fails: rule.regexps("failIfMatchesRegexp")?,
            needs_all: rule.regexps("failIfAllMatchRegexp")?,
            needs: rule.regexps("failIfNotMatchesRegexp")?,
            needs_one: rule.regexps("failIfNoneMatchesRegexp")?,
        });
    }
    Ok(all)
}

fn question(config: &Config) -> Result<Question> {
    let mut id = [0; 2];
    prober::random(&mut id)?;
    Ok(Question::new(u16::from_be_bytes(id), &config.text("queryName"), &config.text("queryType"), &config.text("queryClass"), config.flag("recursionDesired"))?)
}

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    rules(&config)?;
    question(&config)?;
    if config.flag("dnsOverTls") && config.text("transportProtocol") != "tcp" {
        return Err("dnsOverTls needs transportProtocol: tcp".into());
    }
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let rules = rules(&config)?;
    let question = question(&config)?;
    let mut findings = Findings::default();
    let start = Instant::now();
    let (connected, response) = exchange(request, &config, &Budget::of(&config)?, &question, &mut findings);
    let took = start.elapsed();
    match &response {
        Ok(response) => check(&mut findings, &config, &rules, response),
        Err(e) => {
            for name in ["dns_answer_rrs", "dns_authority_rrs", "dns_additional_rrs", "dns_query_succeeded"] {
                findings.metric(name, "", 0.0);
            }
            match e.kind() {
                io::ErrorKind::TimedOut => findings.fail_for("deadline", e.to_string()),
                io::ErrorKind::InvalidData if connected => findings.fail_for("body", e.to_string()),
                _ => findings.fail(e.to_string()),
            }
        }
    }
    common::check_latency(&mut findings, &config, took)?;
    let (code, records) = response.map_or((String::new(), 0), |r| (r.code_name(), r.sections[0].len()));
    Ok(findings.outcome(format!("{}, {} records in {} ms", code, records, took.as_millis())))
}

/// Connects to the target over udp or tcp, with TLS if the config asks for it.
fn dial(protocol: &str, config: &Config, budget: &Budget) -> io::Result<Conn> {
    let mut url = format!("{}://?ipFamily={}", protocol, ip_family(config));
    let source = config.text("sourceIpAddress");
    if !source.is_empty() {
        url += &format!("&sourceAddress={}", source);
    }
    let mut conn = net::dial(&url, budget.left())?;
    if config.flag("dnsOverTls") {
        common::tls::start(&mut conn, &tls_options(config))?;
    }
    Ok(conn)
}

/// Asks the question, and adds the metrics of the connection. It also returns whether there was one.
fn exchange(request: &Request, config: &Config, budget: &Budget, question: &Question, findings: &mut Findings) -> (bool, io::Result<Response>) {
    let start = Instant::now();
    let protocol = config.text("transportProtocol");
    let conn = dial(&protocol, config, budget);
    let (connected, took) = (conn.is_ok(), start.elapsed());
    let info = conn.as_ref().ok().and_then(|c| c.info().ok()).unwrap_or_default();
    let resolved: f64 = json::lookup(&info, "timings.dns").and_then(|n| n.parse().ok()).unwrap_or_default();
    match json::lookup(&info, "remote") {
        Some(remote) => {
            findings.metric("dns_lookup_time_seconds", "s", resolved);
            common::address_metrics(findings, &json::text(remote));
        }
        None => common::unreached_metrics(findings, request),
    }
    if let Some(tls) = json::lookup(&info, "tls") {
        let _ = common::tls::check_age(findings, config, tls);
    }
    let asked = Instant::now();
    let response = conn.and_then(|conn| match protocol.as_str() {
        "udp" => over_udp(conn, budget, question).and_then(|response| response.map_or_else(|| again(config, budget, question), Ok)),
        _ => over_tcp(conn, budget, question),
    });
    let connect = (took.as_secs_f64() - resolved).max(0.0);
    for (phase, took) in [("resolve", resolved), ("connect", connect), ("request", asked.elapsed().as_secs_f64())] {
        findings.labelled("dns_duration_seconds", "s", took, &[("phase", phase)]);
    }
    (connected, response)
}

/// Asks over TCP, because the answer over UDP was truncated.
fn again(config: &Config, budget: &Budget, question: &Question) -> io::Result<Response> {
    prober::progress("the answer over UDP is truncated, and over TCP no answer came");
    let response = dial("tcp", config, budget).and_then(|conn| over_tcp(conn, budget, question));
    response.map_err(|e| io::Error::new(e.kind(), format!("the answer over UDP is truncated, and over TCP: {}", e)))
}

/// Asks over UDP, and again if no answer comes. Answers to other questions are counted and ignored. It returns
/// None if the answer is truncated.
fn over_udp(mut conn: Conn, budget: &Budget, question: &Question) -> io::Result<Option<Response>> {
    let mut buf = vec![0; 64 << 10];
    let mut ignored = String::new();
    let mut count = 0;
    loop {
        conn.write_all(&question.bytes)?;
        let asked = Instant::now();
        while let Some(left) = AGAIN_AFTER.checked_sub(asked.elapsed()).filter(|t| t.as_millis() > 0) {
            if budget.is_over() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("timed out without an answer{}", ignored)));
            }
            conn.set_timeout(Some(budget.left().map_or(left, |most| left.min(most))));
            match conn.read(&mut buf) {
                Ok(n) if question.is_answered_by(&buf[..n]) && message::is_truncated(&buf[..n]) => return Ok(None),
                Ok(n) if question.is_answered_by(&buf[..n]) => return message::parse(&buf[..n]).map(Some),
                Ok(_) => {
                    count += 1;
                    ignored = format!("; ignored datagrams that do not answer the question: {}", count);
                    prober::progress(&format!("no answer{}", ignored));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "timed out without an answer")
}

fn over_tcp(mut conn: Conn, budget: &Budget, question: &Question) -> io::Result<Response> {
    conn.set_timeout(budget.left()); // a server that sends byte by byte has it for each
    let mut framed = (question.bytes.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&question.bytes);
    conn.write_all(&framed)?;
    let mut size = [0; 2];
    let late = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        io::ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "the server closed the connection before the end of its answer"),
        _ => e,
    };
    conn.read_exact(&mut size).map_err(late)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(size))];
    conn.read_exact(&mut answer).map_err(late)?;
    if !question.is_answered_by(&answer) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is to another question"));
    }
    if message::is_truncated(&answer) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer over TCP is truncated"));
    }
    message::parse(&answer)
}

/// Checks a response, and adds its metrics.
fn check(findings: &mut Findings, config: &Config, rules: &[Rules], response: &Response) {
    for (name, records) in ["dns_answer_rrs", "dns_authority_rrs", "dns_additional_rrs"].iter().zip(&response.sections) {
        findings.metric(name, "", records.len() as f64);
    }
    findings.metric("dns_query_succeeded", "", 1.0);
    if config.text("queryType") == "SOA" {
        let serial = response.sections[0].iter().filter_map(|r| r.serial).last();
        findings.metric("dns_serial", "", serial.map_or(0.0, f64::from));
    }
    let valid = config.texts("validRcodes");
    let valid = if valid.is_empty() { vec!["NOERROR".into()] } else { valid };
    let code = response.code_name();
    if !valid.contains(&code) {
        return findings.fail_for("body", format!("the answer is {}, want {}", code, valid.join(" or ")));
    }
    for (rule, records) in rules.iter().zip(&response.sections) {
        if let Some(why) = rule.broken(records) {
            return findings.fail_for("body", why);
        }
    }
}

impl Rules {
    /// Returns why the records of the section break the rules.
    fn broken(&self, records: &[Record]) -> Option<String> {
        let said = |what: &str, r: &Regexp| Some(format!("{} {:?}", what, r.text));
        let section = self.section;
        if let (true, Some(needed)) = (records.is_empty(), self.needs.first().or_else(|| self.needs_one.first())) {
            return said(&format!("the {} section is empty, and must match", section), needed);
        }
        for record in records {
            let seen = shorten(&record.text, 120);
            if let Some(r) = self.fails.iter().find(|r| r.matches(&record.text)) {
                return said(&format!("the {} section has {:?}, which matches", section, seen), r);
            }
            // The field failIfAllMatchRegexp does what it does in blackbox_exporter, and not what it says.
            if let Some(r) = self.needs.iter().chain(&self.needs_all).find(|r| !r.matches(&record.text)) {
                return said(&format!("the {} section has {:?}, which does not match", section, seen), r);
            }
        }
        let any = |r: &Regexp| records.iter().any(|record| r.matches(&record.text));
        if !self.needs_one.is_empty() && !self.needs_one.iter().any(any) {
            return said(&format!("nothing of the {} section matches", section), &self.needs_one[0]);
        }
        None
    }
}
