//! The plugin expect: what blackbox_exporter's tcp module checks, with its metrics, over tcp, tls,
//! starttls and unix sockets. Read probe first, then Talk::step.

use common::config::{tls_options, Budget, Config};
use common::regexp::{lossy, Regexp};
use common::{conn, shorten, Findings};
use prober::net::Conn;
use prober::{json, Request, Result};
use std::io::Write;
use std::time::Instant;

prober::plugin!(probe, validate);

/// The most bytes of a line, as in blackbox_exporter.
const MAX_LINE: usize = 64 << 10;

/// One item of queryResponse.
struct Step {
    expect: Option<Regexp>,
    send: String,
    start_tls: bool,
    labels: Vec<(String, String)>, // of expect_info
}

fn steps(config: &Config) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (i, step) in config.objects("queryResponse").into_iter().enumerate() {
        let expect = match step.get("expect") {
            Some(text) => Some(Regexp::at(&format!("queryResponse[{}].expect", i), &json::text(text))?),
            None => None,
        };
        let labels = step.objects("labels").iter().map(|l| (l.text("name"), l.text("value"))).collect();
        steps.push(Step { expect, send: step.text("send"), start_tls: step.flag("starttls"), labels });
    }
    Ok(steps)
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
    let mut findings = Findings::default();
    let start = Instant::now();
    let budget = Budget::of(&config)?;
    let conn = match dial(request, &config, &budget) {
        Ok(conn) => conn,
        Err(e) => {
            common::unreached_metrics(&mut findings, request);
            findings.metric("failed_due_to_regex", "", 0.0);
            findings.fail(e.to_string());
            return Ok(findings.outcome(String::new()));
        }
    };
    let mut talk = Talk { config: &config, budget, findings, conn, buf: Vec::new(), last: String::new(), place: String::new(), reason: "" };
    if let Err(why) = talk.carry_out(&steps) {
        let why = talk.place.clone() + &why;
        match talk.reason {
            "" => talk.findings.fail(why),
            reason => talk.findings.fail_for(reason, why),
        }
    }
    talk.report()?;
    let took = start.elapsed();
    common::check_latency(&mut talk.findings, &config, took)?;
    let said = if talk.last.is_empty() { String::new() } else { format!(": {:?}", shorten(&talk.last, 80)) };
    Ok(talk.findings.outcome(format!("connected in {} ms{}", took.as_millis(), said)))
}

/// Connects to the target, with TLS if the config asks for it.
fn dial(request: &Request, config: &Config, budget: &Budget) -> std::io::Result<Conn> {
    let mut conn = conn::dial(request, config, budget, "")?;
    if config.flag("tls") {
        common::tls::start(&mut conn, &tls_options(config))?;
    }
    Ok(conn)
}

/// A conversation with the target.
struct Talk<'a> {
    config: &'a Config<'a>,
    budget: Budget,
    findings: Findings,
    conn: Conn,
    buf: Vec<u8>, // read, and not yet part of a line
    last: String, // line that matched
    place: String, // the step, for messages; "" if it is the only one
    reason: &'static str, // of the failure; "" if the host knows it
}

impl Talk<'_> {
    /// Carries out all steps, or returns why one failed.
    fn carry_out(&mut self, steps: &[Step]) -> std::result::Result<(), String> {
        for (i, step) in steps.iter().enumerate() {
            if steps.len() > 1 {
                self.place = format!("step {}: ", i + 1);
            }
            self.step(step)?;
        }
        Ok(())
    }

    /// Waits for a line that matches, sends, and starts TLS, each if the step has it.
    fn step(&mut self, step: &Step) -> std::result::Result<(), String> {
        let mut send = step.send.clone();
        if let Some(expect) = &step.expect {
            let line = self.expect(expect)?;
            let expand = |template: &str| expect.expand(&line, template).unwrap_or_default();
            send = expand(&send);
            if !step.labels.is_empty() {
                let labels: Vec<(&str, String)> = step.labels.iter().map(|(n, v)| (n.as_str(), expand(v))).collect();
                let labels: Vec<(&str, &str)> = labels.iter().map(|(n, v)| (*n, v.as_str())).collect();
                self.findings.labelled("expect_info", "", 1.0, &labels);
            }
            self.last = line;
            prober::progress("");
        }
        if !send.is_empty() {
            self.conn.set_timeout(self.budget.left());
            self.conn.write_all((send + "\n").as_bytes()).map_err(|e| format!("sending: {}", e))?;
        }
        if step.start_tls {
            self.buf.clear();
            self.conn.start_tls(&tls_options(self.config)).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Returns the first line that matches. Meanwhile it tells the host what has come instead.
    fn expect(&mut self, expect: &Regexp) -> std::result::Result<String, String> {
        let mut heard = String::new();
        if !self.last.is_empty() {
            prober::progress(&format!("{}nothing came after {:?} that matches {:?}", self.place, shorten(&self.last, 80), expect.text));
        }
        loop {
            match self.line() {
                Ok(Some(line)) => {
                    let text = lossy(&line).into_owned();
                    if expect.matches(&text) {
                        return Ok(text);
                    }
                    heard = text;
                }
                Ok(None) => {
                    let more = conn::read_more(&mut self.conn, &self.budget, &mut self.buf);
                    match more {
                        Ok(true) => {}
                        Ok(false) if self.buf.is_empty() => {
                            self.reason = "body";
                            return Err(if heard.is_empty() {
                                format!("the peer ended without {:?}", expect.text)
                            } else {
                                format!("the peer ended without {:?}; its last line was {:?}", expect.text, shorten(&heard, 80))
                            });
                        }
                        Ok(false) => self.buf.push(b'\n'),
                        Err(e) => return Err(self.broken(expect, &heard, &e)),
                    }
                }
                Err(e) => return Err(self.broken(expect, &heard, &e)),
            }
            if let Some(why) = self.mismatch(expect, &heard) {
                prober::progress(&format!("{}{}", self.place, why));
            }
        }
    }

    /// Returns that no line matches, with the last one, or None if nothing has come.
    fn mismatch(&self, expect: &Regexp, heard: &str) -> Option<String> {
        let unfinished = lossy(&self.buf[..self.buf.len().min(400)]).into_owned();
        let last = if unfinished.trim().is_empty() { heard } else { &unfinished };
        match last.is_empty() {
            true => None,
            false => Some(format!("no line matches {:?}; the last line was {:?}", expect.text, shorten(last, 80))),
        }
    }

    /// Returns why a read failed while a line was expected.
    fn broken(&mut self, expect: &Regexp, heard: &str, e: &std::io::Error) -> String {
        if self.budget.is_over() {
            self.reason = "deadline";
        }
        match self.mismatch(expect, heard) {
            Some(why) if self.budget.is_over() => format!("{}; the timeout of {} has passed", why, self.config.text("timeout")),
            Some(why) => format!("{}: {}", why, e),
            None => format!("waiting for {:?}: {}", expect.text, e),
        }
    }

    /// Returns the next line without its end, or None if it has not come.
    fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        if let Some(end) = self.buf.iter().position(|b| *b == b'\n') {
            let mut line: Vec<u8> = self.buf.drain(..=end).collect();
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
        if self.buf.len() >= MAX_LINE {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("a line of more than {} bytes", MAX_LINE)));
        }
        Ok(None)
    }

    /// Adds the metrics of the connection, and checks its certificates.
    fn report(&mut self) -> Result<()> {
        conn::report(&mut self.findings, self.config, &self.conn)?;
        self.findings.metric("failed_due_to_regex", "", f64::from(u8::from(self.reason == "body")));
        Ok(())
    }
}
