//! The rules about values in a body of JSON.

use crate::config::Config;
use crate::regexp::Regexp;
use crate::{Findings, Secrets};
use prober::{json, Result};

/// One item of jsonPath.
pub struct PathRule {
    path: String,
    equals: Option<String>, // as JSON
    matches: Option<Regexp>,
    min: Option<f64>,
    max: Option<f64>,
}

pub fn rules(config: &Config) -> Result<Vec<PathRule>> {
    let mut rules = Vec::new();
    for (i, rule) in config.objects("jsonPath").into_iter().enumerate() {
        let matches = match rule.get("matches") {
            Some(text) => Some(Regexp::at(&format!("jsonPath[{}].matches", i), &json::text(text))?),
            None => None,
        };
        rules.push(PathRule {
            path: rule.text("path"),
            equals: rule.get("equals").map(str::to_owned),
            matches,
            min: rule.number("min"),
            max: rule.number("max"),
        });
    }
    Ok(rules)
}

/// Adds a failure for each rule that a body breaks.
pub fn check(findings: &mut Findings, rules: &[PathRule], body: &str) {
    for rule in rules {
        if let Some(why) = rule.broken(body, &findings.secrets) {
            findings.fail_for("body", why);
        }
    }
}

impl PathRule {
    /// Returns why the body breaks the rule.
    fn broken(&self, body: &str, secrets: &Secrets) -> Option<String> {
        let value = match find(body, &self.path) {
            Some(value) => value,
            None => return Some(format!("the body has no {}", self.path)),
        };
        let text = json::text(value);
        let seen = secrets.excerpt(&text);
        let number: Option<f64> = text.parse().ok();
        if let Some(want) = &self.equals {
            if !same(value, want) {
                return Some(format!("{} is {}, want {}", self.path, seen, json::text(want)));
            }
        }
        if let Some(want) = self.matches.as_ref().filter(|m| !m.matches(&text)) {
            return Some(format!("{} is {:?}, which does not match {:?}", self.path, seen, want.text));
        }
        match (number, self.min, self.max) {
            (None, None, None) => None,
            (None, _, _) if self.min.is_some() || self.max.is_some() => Some(format!("{} is {:?}, which is not a number", self.path, seen)),
            (Some(n), Some(min), _) if !(n >= min) => Some(format!("{} is {}, below {}", self.path, n, min)),
            (Some(n), _, Some(max)) if !(n <= max) => Some(format!("{} is {}, above {}", self.path, n, max)),
            _ => None,
        }
    }
}

/// Reports whether two values are the same: numbers by value, other scalars by their text.
fn same(a: &str, b: &str) -> bool {
    let is_text = |v: &str| v.starts_with('"');
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => is_text(a) == is_text(b) && json::text(a) == json::text(b),
    }
}

/// Finds the value at a path such as $.a.b[0].
pub fn find<'a>(body: &'a str, path: &str) -> Option<&'a str> {
    json::lookup(body, &dotted(path))
}

/// Returns $.a.b[0] as a.b.0.
fn dotted(path: &str) -> String {
    let path = path.strip_prefix('$').unwrap_or(path);
    path.replace('[', ".").replace(']', "").trim_start_matches('.').into()
}
