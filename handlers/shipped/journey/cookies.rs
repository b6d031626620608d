//! The cookies of a journey, RFC 6265 without expiry: a journey is short.

use common::header::values_of;
use common::url::Url;

/// The most cookies, and the most bytes of one.
const MAX_COOKIES: usize = 64;
const MAX_COOKIE: usize = 4 << 10;

/// The most bytes of the header Cookie.
const MAX_HEADER: usize = 16 << 10;

struct Cookie {
    name: String,
    value: String,
    host: String,
    subdomains: bool, // whether hosts below host get it too
    path: String,
    secure: bool,
}

#[derive(Default)]
pub struct Jar(Vec<Cookie>);

impl Jar {
    /// Stores the cookies of a response to the request of url. It ignores invalid ones, and more than it keeps.
    pub fn store(&mut self, head: &str, url: &Url) {
        for line in values_of(head, "set-cookie") {
            if let Some((cookie, ended)) = parse(&line, url) {
                self.0.retain(|c| (&c.name, &c.host, &c.path) != (&cookie.name, &cookie.host, &cookie.path));
                if !ended && self.0.len() < MAX_COOKIES {
                    self.0.push(cookie);
                }
            }
        }
    }

    /// Returns the header Cookie of a request, or "".
    pub fn header(&self, url: &Url) -> String {
        let mut out = String::new();
        for c in self.0.iter().filter(|c| c.is_for(url)) {
            if out.len() + c.name.len() + c.value.len() < MAX_HEADER {
                out += &format!("{}{}={}", if out.is_empty() { "" } else { "; " }, c.name, c.value);
            }
        }
        out
    }

    /// Returns the value of the newest cookie of a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|c| c.name == name).map(|c| c.value.as_str())
    }

    /// Returns all values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|c| c.value.as_str())
    }
}

impl Cookie {
    fn is_for(&self, url: &Url) -> bool {
        let (host, path) = (url.host(), url.only_path());
        let below = self.subdomains && host.strip_suffix(self.host.as_str()).map_or(false, |h| h.ends_with('.'));
        let rest = path.strip_prefix(self.path.as_str());
        let in_path = rest.map_or(false, |rest| rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/'));
        (host == self.host || below) && in_path && (!self.secure || url.scheme == "https")
    }
}

/// Returns a cookie, and whether it has ended.
fn parse(line: &str, url: &Url) -> Option<(Cookie, bool)> {
    let mut parts = line.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let plain = |text: &str| text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if name.is_empty() || name.len() + value.len() > MAX_COOKIE || !plain(name) || !plain(value) {
        return None;
    }
    let own = url.only_path();
    let folder = own[..own.rfind('/').unwrap_or(0)].to_owned();
    let path = if folder.is_empty() { "/".into() } else { folder };
    let mut cookie = Cookie { name: name.into(), value: value.into(), host: url.host(), subdomains: false, path, secure: false };
    let mut ended = false;
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "secure" => cookie.secure = true,
            "path" if value.starts_with('/') => cookie.path = value.into(),
            "max-age" => ended = value.parse::<f64>().map_or(ended, |seconds| seconds <= 0.0),
            "expires" => ended = common::date::http_date(value).map_or(ended, |end| end <= now()),
            "domain" => {
                let domain = value.trim_start_matches('.').to_ascii_lowercase();
                let covers = cookie.host == domain || cookie.host.strip_suffix(domain.as_str()).map_or(false, |h| h.ends_with('.'));
                if !covers || !domain.contains('.') || cookie.host.parse::<std::net::IpAddr>().is_ok() && cookie.host != domain {
                    return None;
                }
                cookie.host = domain;
                cookie.subdomains = true;
            }
            _ => {}
        }
    }
    Some((cookie, ended))
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs() as i64)
}
