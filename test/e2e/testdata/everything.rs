//! Everything uses all of the crate but DNS and ICMP. The config's "do" says what an attempt is about.

use prober::{config, http, json, kv, net, Level, Metric, Outcome, Request};
use std::io::{Read, Write};
use std::time::Duration;

prober::plugin!(probe, validate);

fn validate() -> prober::Result<()> {
    match config::string("do", "")?.as_str() {
        "evil" => Err("do no evil".into()),
        _ => Ok(()),
    }
}

fn probe(r: &Request) -> prober::Result {
    match config::string("do", "")?.as_str() {
        "request" => Ok(Outcome::warning(format!("kind {}, port {}, text {}", r.kind(), r.port(), r.text("config.text")))),
        "config" => configured(),
        "net" => Ok(talk().unwrap_or_else(Outcome::failure)),
        "http" => Ok(ask(&config::string("url", "")?).unwrap_or_else(Outcome::failure)),
        "kv" => Ok(keep().unwrap_or_else(Outcome::failure)),
        "json" => {
            let mut out = Outcome::success("in full");
            out.metrics.push(Metric { name: "n".into(), value: 1.0, labels: vec![("a".into(), "b".into())], ..Metric::default() });
            Ok(out)
        }
        "panic" => panic!("at the disco"),
        _ => Err(format!("nothing to do after {:?}", prober::deadline()).into()),
    }
}

fn configured() -> prober::Result {
    let text = config::string("text", "none")?;
    let number: f64 = config::value("number", 0.0)?;
    let whole: i64 = config::value("list.1", 0)?;
    let truth: bool = config::value("truth", false)?;
    let millis = config::duration("time", Duration::from_secs(0))?.as_millis();
    prober::log(Level::Info, format!("the config is read: {:?}", config::strings("texts")?));
    Ok(Outcome::unknown(format!("text {}, number {:.2}, whole {}, truth {}, millis {}", text, number, whole, truth, millis)))
}

fn talk() -> std::io::Result<Outcome> {
    let mut conn = net::dial("", Some(Duration::from_secs(1)))?;
    net::poll(&[&conn], None)?;
    let mut said = [0; 4];
    conn.read_exact(&mut said)?;
    conn.write_all(b"QUIT\r\n")?;
    let info = conn.info()?;
    let network = json::lookup(&info, "network").map(json::text).unwrap_or_default();
    let tls = if conn.start_tls("{}").is_ok() { "works" } else { "fails" };
    Ok(Outcome::success(format!("{} says {}; starttls {}", network, String::from_utf8_lossy(&said), tls)))
}

fn ask(url: &str) -> std::io::Result<Outcome> {
    let mut answer = http::Request {
        method: "POST".into(),
        url: url.into(),
        headers: vec![("X-Asked".into(), "yes".into())],
        body: b"ping".to_vec(),
        ..http::Request::default()
    }
    .send()?;
    let mut body = String::new();
    answer.read_to_string(&mut body)?;
    let kind = answer.header("x-answer").unwrap_or_default();
    Ok(Outcome::success(format!("{} {} {}", answer.status(), kind, body)))
}

fn keep() -> std::io::Result<Outcome> {
    kv::set("key", "value")?;
    kv::set("gone", "x")?;
    kv::delete("gone")?;
    let value = kv::get("key")?.unwrap_or_default();
    let gone = if kv::get("gone")?.is_none() { "gone" } else { "there" };
    Ok(Outcome::success(format!("{}, {}", String::from_utf8_lossy(&value), gone)))
}
