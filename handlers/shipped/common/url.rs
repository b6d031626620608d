//! URLs: their parts, and references relative to them.

/// A URL of HTTP or of a WebSocket. An empty authority is the target.
#[derive(Clone)]
pub struct Url {
    pub scheme: String,
    pub authority: String,
    /// The path, which begins with a slash, and the query.
    pub path: String,
}

impl Url {
    /// Parses a URL. A path alone is one of the target, with the scheme of the argument.
    pub fn parse(text: &str, scheme: &str) -> Option<Url> {
        let text = text.split('#').next().unwrap_or_default();
        if text.starts_with('/') && !text.starts_with("//") {
            return Some(Url { scheme: scheme.into(), authority: String::new(), path: text.into() });
        }
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?'].as_slice()).unwrap_or(rest.len()));
        let path = if path.starts_with('/') { path.into() } else { "/".to_owned() + path };
        Some(Url { scheme: scheme.to_ascii_lowercase(), authority: authority.into(), path })
    }

    /// Returns the URL to which a reference leads, such as the header Location.
    pub fn join(&self, reference: &str) -> Option<Url> {
        let reference = reference.split('#').next().unwrap_or_default();
        let scheme_end = reference.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(0);
        if scheme_end > 0 && reference[scheme_end..].starts_with(':') {
            return Url::parse(reference, "");
        }
        if reference.starts_with("//") {
            return Url::parse(&format!("{}:{}", self.scheme, reference), "");
        }
        let own = self.path.split('?').next().unwrap_or_default();
        let path = match reference.chars().next() {
            None => self.path.clone(),
            Some('/') => reference.into(),
            Some('?') => own.to_owned() + reference,
            Some(_) => own[..own.rfind('/').map_or(0, |i| i + 1)].to_owned() + reference,
        };
        Some(Url { path: without_dots(&path), ..self.clone() })
    }

    /// Returns the URL with the target in place of no host.
    pub fn on_target(&self, request: &prober::Request) -> Url {
        if !self.authority.is_empty() {
            return self.clone();
        }
        let host = request.host();
        let authority = match host.contains(':') {
            _ if !request.unix().is_empty() => "localhost".into(),
            true => format!("[{}]:{}", host, request.port()),
            false => format!("{}:{}", host, request.port()),
        };
        Url { authority, ..self.clone() }
    }

    /// Returns the host in lower case, without its port.
    pub fn host(&self) -> String {
        let host = self.authority.rsplit('@').next().unwrap_or_default();
        let end = match host.rfind(':') {
            Some(i) if !host[i..].contains(']') => i,
            _ => host.len(),
        };
        host[..end].to_ascii_lowercase()
    }

    /// Returns the port, or that of the scheme.
    pub fn port(&self) -> u16 {
        let secure = self.scheme == "https" || self.scheme == "wss";
        let port = self.authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')).and_then(|(_, port)| port.parse().ok());
        port.unwrap_or(if secure { 443 } else { 80 })
    }

    /// Returns what may share credentials: scheme, host and port.
    pub fn origin(&self) -> (&str, String, u16) {
        (&self.scheme, self.host(), self.port())
    }

    /// Returns the path without the query.
    pub fn only_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Returns a path without its segments of dots.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{}", kept.join("/"), query)
}
