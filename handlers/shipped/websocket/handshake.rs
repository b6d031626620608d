//! The handshake of a WebSocket, RFC 6455 section 4: a request of HTTP/1.1 and its response.

use common::config::{Budget, Config};
use common::regexp::lossy;
use common::url::Url;
use common::{conn, shorten, web};
use prober::net::Conn;
use prober::{digest, http, Error, Request, Result};
use std::io::Write;

/// The most bytes of the response.
const MAX_HEAD: usize = 16 << 10;

/// What the server adds to the key before it hashes it.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Checks the headers and the subprotocols, which are part of the request as they are.
pub fn validate(config: &Config) -> Result<()> {
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    for (name, value) in config.pairs("headers") {
        if !is_token(&name) || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Error::new(format!("headers.{}: it is not a header", shorten(&name, 40))));
        }
        let lower = name.to_ascii_lowercase();
        if ["connection", "upgrade", "content-length", "transfer-encoding"].contains(&lower.as_str()) || lower.starts_with("sec-websocket-") {
            return Err(Error::new(format!("headers.{}: the handshake sets it", name)));
        }
    }
    match config.texts("subprotocols").iter().find(|p| !is_token(p)) {
        Some(_) => Err(Error::new("subprotocols: a name has letters, digits, dots and dashes")),
        None => Ok(()),
    }
}

/// The response to the handshake.
pub struct Opened {
    pub status: u16, // 0 without a response
    pub failure: Option<(&'static str, String)>, // reason and message
}

/// Sends the request and checks the response. buf gets what the server has sent after it.
pub fn open(request: &Request, config: &Config, url: &Url, conn: &mut Conn, budget: &Budget, buf: &mut Vec<u8>) -> Opened {
    let mut status = 0;
    let failure = exchange(request, config, url, conn, budget, buf, &mut status).err();
    Opened { status, failure }
}

type Checked = std::result::Result<(), (&'static str, String)>;

fn exchange(request: &Request, config: &Config, url: &Url, conn: &mut Conn, budget: &Budget, buf: &mut Vec<u8>, status: &mut u16) -> Checked {
    let mut nonce = [0; 16];
    prober::random(&mut nonce).map_err(|e| ("", e.to_string()))?;
    let key = digest::to_base64(&nonce);
    conn.set_timeout(budget.left());
    conn.write_all(text(request, config, url, &key).as_bytes()).map_err(|e| ("", format!("sending the handshake: {}", e)))?;
    let end = loop {
        if let Some(end) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if buf.len() > MAX_HEAD {
            return Err(("protocol", format!("the response to the handshake has more than {} bytes", MAX_HEAD)));
        }
        match conn::read_more(conn, budget, buf) {
            Ok(true) => {}
            Ok(false) => return Err(("protocol", format!("the server ended the connection during the handshake{}", began(buf)))),
            Err(_) if budget.is_over() => return Err(("deadline", format!("no response to the handshake within {}", config.text("timeout")))),
            Err(e) => return Err(("", format!("the handshake: {}", e))),
        }
    };
    let rest = buf.split_off(end + 4);
    let head = std::mem::replace(buf, rest);
    check(&lossy(&head), config, &key, status)
}

/// Returns the start of what was sent in place of a response.
fn began(buf: &[u8]) -> String {
    match buf {
        [] => String::new(),
        _ => format!(", after {:?}", shorten(&lossy(&buf[..buf.len().min(400)]), 80)),
    }
}

/// Returns the request.
fn text(request: &Request, config: &Config, url: &Url, key: &str) -> String {
    let mut r = http::Request::default();
    web::add_headers(&mut r, request, config);
    let full = url.on_target(request);
    let default = format!(":{}", if url.scheme == "wss" { 443 } else { 80 });
    let host = full.authority.strip_suffix(default.as_str()).unwrap_or(&full.authority);
    let mut lines = vec![format!("GET {} HTTP/1.1", url.path)];
    if !web::has_header(&r, "Host") {
        lines.push(format!("Host: {}", host));
    }
    lines.push(format!("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13", key));
    let protocols = config.texts("subprotocols");
    if !protocols.is_empty() {
        lines.push(format!("Sec-WebSocket-Protocol: {}", protocols.join(", ")));
    }
    lines.extend(r.headers.iter().map(|(name, value)| format!("{}: {}", name, value)));
    lines.join("\r\n") + "\r\n\r\n"
}

/// Checks a response.
fn check(head: &str, config: &Config, key: &str, status: &mut u16) -> Checked {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let code = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).filter(|code| code.len() == 3);
    *status = match code.and_then(|code| code.parse().ok()) {
        Some(code) => code,
        None => return Err(("protocol", format!("the response to the handshake is not of HTTP/1.1: {:?}", shorten(first, 80)))),
    };
    if *status != 101 {
        return Err(("http_status", format!("HTTP status {}, want 101", status)));
    }
    let headers: Vec<(String, &str)> = lines.filter_map(|l| l.split_once(':')).map(|(n, v)| (n.to_ascii_lowercase(), v.trim())).collect();
    let values = |name: &str| headers.iter().filter(|(n, _)| n == name).map(|(_, v)| *v).collect::<Vec<&str>>().join(", ");
    let has = |name: &str, want: &str| values(name).split(',').any(|v| v.trim().eq_ignore_ascii_case(want));
    let failed = |why: &str| Err(("protocol", format!("the handshake failed: {}", why)));
    if !has("upgrade", "websocket") || !has("connection", "upgrade") {
        return failed("the response has no Upgrade to websocket");
    }
    if values("sec-websocket-accept") != digest::to_base64(&digest::sha1((key.to_owned() + GUID).as_bytes())) {
        return failed("Sec-WebSocket-Accept does not belong to the request");
    }
    if !values("sec-websocket-extensions").is_empty() {
        return failed("the server chose an extension that was not offered");
    }
    let (offered, chosen) = (config.texts("subprotocols"), values("sec-websocket-protocol"));
    if !chosen.is_empty() && !offered.contains(&chosen) {
        return failed(&format!("the server chose the subprotocol {:?}, which was not offered", shorten(&chosen, 40)));
    }
    if chosen.is_empty() && !offered.is_empty() {
        return failed("the server chose no subprotocol");
    }
    Ok(())
}
