//! The elements of answers in XML that matter: errors, and lists of objects. Attributes and nesting do not.

use common::date::days;

/// An object of a list.
pub struct Object {
    pub key: String,
    /// When it was changed, in seconds since 1970.
    pub changed: i64,
    pub size: u64,
}

/// A page of a list.
pub struct Page {
    pub count: usize,
    pub newest: Option<Object>,
    /// The token of the next page.
    pub next: Option<String>,
}

/// Returns the text of the first element with a name.
pub fn text(doc: &str, name: &str) -> Option<String> {
    element(doc, name).map(|(inner, _)| unescaped(inner))
}

/// Returns what the first element with a name contains, and the rest of the document.
fn element<'a>(doc: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = doc;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        let after = match rest.strip_prefix(name) {
            Some(after) if after.starts_with(['>', ' ', '/'].as_slice()) => after,
            _ => continue,
        };
        let (head, inner) = after.split_at(after.find('>')?);
        let inner = &inner[1..];
        if head.ends_with('/') {
            return Some(("", inner));
        }
        let end = inner.find(&format!("</{}>", name))?;
        return Some((&inner[..end], &inner[end + name.len() + 3..]));
    }
}

/// Reads the answer to ListObjectsV2.
pub fn page(doc: &str) -> Result<Page, String> {
    if !doc.contains("<ListBucketResult") {
        return Err(format!("it is {:?}", common::peer::shown(doc.as_bytes())));
    }
    if !doc.contains("</ListBucketResult>") {
        return Err(format!("it does not end within {} bytes", doc.len()));
    }
    let mut page = Page { count: 0, newest: None, next: None };
    let mut rest = doc;
    while let Some((inner, after)) = element(rest, "Contents") {
        rest = after;
        let part = |name: &str| text(inner, name).unwrap_or_default();
        let (key, time, size) = (part("Key"), part("LastModified"), part("Size"));
        let changed = seconds(&time).ok_or_else(|| format!("an object has the date {:?}", common::peer::shown(time.as_bytes())))?;
        page.count += 1;
        if page.newest.as_ref().map_or(true, |o| changed > o.changed) {
            page.newest = Some(Object { key, changed, size: size.parse().unwrap_or_default() });
        }
    }
    if text(doc, "IsTruncated").as_deref() == Some("true") {
        page.next = Some(text(doc, "NextContinuationToken").unwrap_or_default());
    }
    Ok(page)
}

/// Returns the seconds since 1970 of a time such as 2009-10-12T17:50:30.000Z.
fn seconds(time: &str) -> Option<i64> {
    let numbers: Vec<i64> = time.strip_suffix('Z')?.split(['-', 'T', ':', '.'].as_slice()).take(6).map_while(|n| n.parse().ok()).collect();
    let [year, month, day, hour, minute, second] = <[i64; 6]>::try_from(numbers).ok()?;
    if !((0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)) {
        return None;
    }
    if !((0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second)) {
        return None;
    }
    Some(days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second)
}

/// Returns a text without the five entities of XML and references to characters.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out += &rest[..at];
        rest = &rest[at..];
        let name = rest[1..].split(';').next().filter(|name| name.len() < 10 && rest.len() > name.len() + 1);
        let number = |n: &str| n.strip_prefix('x').map_or_else(|| n.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        let found = name.and_then(|name| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => char::from_u32(number(name.strip_prefix('#')?)?),
        });
        match (found, name) {
            (Some(c), Some(name)) => {
                out.push(c);
                rest = &rest[name.len() + 2..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}
