//! Options sets every option of every host function, and reads what their results repeat.

use prober::{config, dns, http, icmp, kv, net, time, Metric, Outcome, Request};
use std::time::Duration;

prober::plugin!(probe);

/// Writes the time of the config, and reports whether it is read again.
fn written(text: &str) -> prober::Result {
    let at = time::Utc::from_unix(text.parse().map_err(|_| "at: must be a number")?);
    prober::progress(&format!("{} {} {}", at.basic(), at, time::Utc::parse(&at.to_string()) == Some(at)));
    Err("a time".into())
}

fn probe(r: &Request) -> prober::Result {
    if let Some(at) = config::get("at")? {
        return written(&at);
    }
    prober::progress("working");
    let mut tls = net::Tls {
        server_name: "d b".into(),
        insecure: true,
        ca: "PEM\n".into(),
        credentials: "own".into(),
        min_version: "TLS12".into(),
        max_version: "TLS13".into(),
        ..net::Tls::default()
    };
    let response = http::Request {
        method: "PUT".into(),
        url: "https://db.internal/x".into(),
        headers: vec![("X-Asked".into(), "a \"b\"".into())],
        body: vec![0, 0xff, b'a'],
        redirects: 2,
        timeout: Some(Duration::from_millis(250)),
        tls: (&tls).into(),
        http2: true,
        decompress: "gzip".into(),
        ip_family: "4,6".into(),
        source_address: "10.0.0.1".into(),
        proxy: "http://proxy:3128".into(),
        proxy_headers: vec![("X-Team".into(), "shop".into())],
        ..http::Request::default()
    }
    .send()?;
    tls.alpn = vec!["h2".into(), "http/1.1".into()];
    net::dial("tcp://db.internal:5432", None)?.start_tls(&tls)?;
    tls.ca = String::new();
    let options = net::Options { ip_family: "6".into(), source_address: "fd00::1".into(), tls };
    net::dial_with("tls://db.internal:5432", &options, None)?;
    dns::lookup("db.internal", "SRV", "target", None)?;
    let request = icmp::Request {
        host: "db.internal".into(),
        ip_family: "6,4".into(),
        source_address: "10.0.0.1".into(),
        payload: 9,
        hop_limit: 7,
        dont_fragment: true,
    };
    icmp::echo(&request, None)?;
    kv::set("key", [0, 0xff])?;
    let same = kv::get("key")? == Some(vec![0, 0xff]);
    let at = time::Utc::from_unix(1136214245);
    let read = time::Utc::parse("2006-01-02T17:04:05.5+02:00") == Some(at);
    if !r.has("kv") || r.has("dns") || !config::strings("none")?.is_empty() {
        return Err("the features differ".into());
    }
    let text = format!("{} {} {} {} {} {}", response.headers("set-cookie").join("|"), response.headers("x-one").join("|"), at.basic(), at, read, same);
    let mut out = Outcome::failure(text).details("{\"a\":1}").reason("body");
    out.metrics.push(Metric { name: "seconds".into(), unit: "s".into(), value: 0.5, labels: vec![("role".into(), "main".into())] });
    Ok(out)
}
