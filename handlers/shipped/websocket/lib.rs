//! The plugin websocket: opens a WebSocket, RFC 6455, and sends and expects messages. Read probe first, then
//! handshake.rs and frame.rs.

use common::config::{tls_options, Budget, Config};
use common::regexp::{lossy, Regexp};
use common::url::Url;
use common::{conn, shorten, Findings};
use prober::net::Conn;
use prober::{json, Error, Request, Result};
use std::time::{Duration, Instant};

mod frame;
mod handshake;

use frame::{Broken, Event, Socket};

prober::plugin!(probe, validate);

/// One item of exchange.
struct Step {
    send: Option<(u8, Vec<u8>)>, // type of the message, and its payload
    expect: Option<Regexp>,
}

fn steps(config: &Config) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (i, step) in config.objects("exchange").into_iter().enumerate() {
        let expect = match step.get("expect") {
            Some(text) => Some(Regexp::at(&format!("exchange[{}].expect", i), &json::text(text))?),
            None => None,
        };
        let send = match (step.get("send"), step.get("sendBase64")) {
            (Some(text), _) => Some((frame::TEXT, json::text(text).into_bytes())),
            (None, Some(text)) => {
                let data = prober::digest::from_base64(&json::text(text));
                Some((frame::BINARY, data.ok_or_else(|| Error::new(format!("exchange[{}].sendBase64: it is not base64", i)))?))
            }
            (None, None) => None,
        };
        steps.push(Step { send, expect });
    }
    Ok(steps)
}

/// Returns the URL of a config, with the scheme ws or wss.
fn url(config: &Config) -> Result<Url> {
    let mut url = Url::parse(&config.text("url"), "ws").ok_or_else(|| Error::new("url: it is not a URL"))?;
    url.scheme = match url.scheme.as_str() {
        "https" | "wss" => "wss".into(),
        _ => "ws".into(),
    };
    if !(url.authority.clone() + &url.path).bytes().all(|b| (0x21..0x7f).contains(&b)) || url.authority.contains(['@', '?'].as_slice()) {
        return Err(Error::new("url: it must have neither spaces nor a user"));
    }
    Ok(url)
}

fn validate() -> Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    url(&config)?;
    steps(&config)?;
    handshake::validate(&config)?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> Result {
    let config = Config::of(request);
    let (steps, url) = (steps(&config)?, url(&config)?);
    let start = Instant::now();
    let budget = Budget::of(&config)?;
    let findings = Findings::of(request);
    let mut talk = Talk { config: &config, findings, status: 0, seen: 0, last: String::new(), ping: None, closed: None, mismatch: false };
    let connected = match dial(request, &config, &budget, &url) {
        Ok(conn) => talk.carry_out(request, &url, conn, budget, &steps)?,
        Err(e) => {
            common::unreached_metrics(&mut talk.findings, request);
            talk.findings.fail(e.to_string());
            false
        }
    };
    talk.report();
    let took = start.elapsed();
    common::check_latency(&mut talk.findings, &config, took)?;
    let pong = talk.ping.filter(|_| connected).map_or(String::new(), |d| format!(", a ping took {} ms", d.as_millis()));
    let said = if talk.last.is_empty() { String::new() } else { format!(": {:?}", shorten(&talk.last, 80)) };
    Ok(talk.findings.outcome(format!("connected in {} ms{}{}", took.as_millis(), pong, said)))
}

/// Connects to the host of a URL, with TLS for wss.
fn dial(request: &Request, config: &Config, budget: &Budget, url: &Url) -> std::io::Result<Conn> {
    let address = match url.authority.is_empty() {
        true => String::new(),
        false if url.host().contains(':') && !url.host().starts_with('[') => format!("[{}]:{}", url.host(), url.port()),
        false => format!("{}:{}", url.host(), url.port()),
    };
    let mut conn = conn::dial(request, config, budget, &address)?;
    if url.scheme == "wss" {
        let options = tls_options(config);
        let separator = if options == "{}" { "" } else { "," };
        conn.start_tls(&format!("{}{}\"alpn\":[\"http/1.1\"]}}", &options[..options.len() - 1], separator))?;
    }
    Ok(conn)
}

/// What happens on a connection.
struct Talk<'a> {
    config: &'a Config<'a>,
    findings: Findings,
    status: u16,              // of the response to the handshake
    seen: u32,                // messages of the server
    last: String,             // the message that matched last
    ping: Option<Duration>,   // from a ping to its pong
    closed: Option<u16>,      // the code of the server's close frame
    mismatch: bool,           // whether no message matched
}

impl Talk<'_> {
    /// Carries out the handshake and the exchange. It reports whether the handshake succeeded.
    fn carry_out(&mut self, request: &Request, url: &Url, mut conn: Conn, budget: Budget, steps: &[Step]) -> Result<bool> {
        prober::progress("waiting for the response to the handshake");
        let mut buf = Vec::new();
        let opened = handshake::open(request, self.config, url, &mut conn, &budget, &mut buf);
        self.status = opened.status;
        conn::report(&mut self.findings, self.config, &conn)?;
        if let Some((reason, why)) = opened.failure {
            self.findings.fail_for(reason, why);
            return Ok(false);
        }
        prober::progress("");
        let mut socket = Socket::new(conn, budget, buf);
        if let Err(why) = self.talk(&mut socket, steps) {
            self.findings.fail(why);
            if self.closed.is_none() {
                let _ = socket.close(1002); // the server may have gone
            }
        }
        Ok(true)
    }

    fn talk(&mut self, socket: &mut Socket, steps: &[Step]) -> std::result::Result<(), String> {
        for (i, step) in steps.iter().enumerate() {
            let place = if steps.len() > 1 { format!("step {}: ", i + 1) } else { String::new() };
            if let Some((kind, payload)) = &step.send {
                socket.send(*kind, payload).map_err(|e| format!("{}sending: {}", place, e))?;
            }
            if let Some(expect) = &step.expect {
                self.expect(socket, expect, &place)?;
            }
        }
        if self.config.flag("ping") {
            self.ping(socket)?;
        }
        socket.close(1000).map_err(|e| format!("closing: {}", e))?;
        self.check_close(socket)
    }

    /// Waits for a message that matches. Meanwhile it tells the host what has come instead.
    fn expect(&mut self, socket: &mut Socket, expect: &Regexp, place: &str) -> std::result::Result<(), String> {
        let mut heard = format!("no message came that matches {:?}", expect.text);
        self.mismatch = true;
        loop {
            prober::progress(&format!("{}{}", place, heard));
            let message = match self.next(socket) {
                Ok(Event::Message(data)) => lossy(&data).into_owned(),
                Ok(Event::Pong(_)) => continue,
                Ok(Event::Close(code, reason)) => return Err(format!("{}{}; {}", place, heard, closing(code, &reason))),
                Err(why) => return Err(format!("{}{}; {}", place, heard, why)),
            };
            if expect.matches(&message) {
                self.last = message;
                self.mismatch = false;
                prober::progress("");
                return Ok(());
            }
            heard = format!("no message matches {:?}, and the last one was {:?}", expect.text, shorten(&message, 80));
        }
    }

    /// Sends a ping, and waits for its pong.
    fn ping(&mut self, socket: &mut Socket) -> std::result::Result<(), String> {
        prober::progress("waiting for a pong");
        let mut payload = [0; 8];
        prober::random(&mut payload).map_err(|e| e.to_string())?;
        let start = Instant::now();
        socket.send(frame::PING, &payload).map_err(|e| format!("sending a ping: {}", e))?;
        loop {
            match self.next(socket) {
                Ok(Event::Pong(data)) if data == payload => break,
                Ok(Event::Close(code, reason)) => return Err(format!("no pong came; {}", closing(code, &reason))),
                Ok(_) => {}
                Err(why) => return Err(format!("no pong came; {}", why)),
            }
        }
        self.ping = Some(start.elapsed());
        prober::progress("");
        Ok(())
    }

    /// Waits for the close frame of the server, if its code has to be one of the config.
    fn check_close(&mut self, socket: &mut Socket) -> std::result::Result<(), String> {
        let valid: Vec<u16> = self.config.texts("validCloseCodes").iter().filter_map(|code| code.parse().ok()).collect();
        if valid.is_empty() {
            return Ok(());
        }
        prober::progress("waiting for the close frame of the server");
        loop {
            match self.next(socket) {
                Ok(Event::Close(code, _)) if valid.contains(&code) => return Ok(()),
                Ok(Event::Close(code, reason)) => {
                    let want: Vec<String> = valid.iter().map(u16::to_string).collect();
                    return Err(format!("{}, want {}", closing(code, &reason), want.join(" or ")));
                }
                Ok(_) => {}
                Err(why) => return Err(format!("no close frame came; {}", why)),
            }
        }
    }

    /// Returns the next event, or why there is none.
    fn next(&mut self, socket: &mut Socket) -> std::result::Result<Event, String> {
        match socket.next() {
            Ok(event) => {
                match &event {
                    Event::Message(_) => self.seen += 1,
                    Event::Close(code, _) => self.closed = Some(*code),
                    Event::Pong(_) => {}
                }
                Ok(event)
            }
            Err(Broken::Protocol(why)) => Err(format!("the server broke the protocol: {}", why)),
            Err(Broken::End) => Err("the server ended the connection without a close frame".into()),
            Err(Broken::Io(_)) if socket.budget.is_over() => Err(format!("the timeout of {} has passed", self.config.text("timeout"))),
            Err(Broken::Io(e)) => Err(e.to_string()),
        }
    }

    /// Adds the metrics of the exchange.
    fn report(&mut self) {
        let findings = &mut self.findings;
        findings.metric("failed_due_to_regex", "", f64::from(u8::from(self.mismatch)));
        findings.metric("websocket_status_code", "", f64::from(self.status));
        findings.metric("websocket_messages", "", f64::from(self.seen));
        if let Some(took) = self.ping {
            findings.metric("websocket_ping_seconds", "s", took.as_secs_f64());
        }
        if let Some(code) = self.closed {
            findings.metric("websocket_close_code", "", f64::from(code));
        }
    }
}

fn closing(code: u16, reason: &str) -> String {
    match (code, reason) {
        (1005, _) => "the server closed the connection without a code".into(),
        (code, "") => format!("the server closed the connection with {}", code),
        (code, reason) => format!("the server closed the connection with {} {:?}", code, shorten(reason, 80)),
    }
}
