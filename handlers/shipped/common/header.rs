//! The rules about headers of the response.

use crate::config::Config;
use crate::regexp::Regexp;
use crate::{Findings, Secrets};
use prober::{json, Result};

/// One item of failIfHeaderMatches or failIfHeaderNotMatches.
pub struct HeaderRule {
    name: String,
    regexp: Regexp,
    allow_missing: bool,
    fails_on_match: bool,
}

pub fn rules(config: &Config) -> Result<Vec<HeaderRule>> {
    let mut rules = Vec::new();
    for (field, fails_on_match) in [("failIfHeaderMatches", true), ("failIfHeaderNotMatches", false)] {
        for (i, rule) in config.objects(field).into_iter().enumerate() {
            rules.push(HeaderRule {
                name: rule.text("header"),
                regexp: Regexp::at(&format!("{}[{}].regexp", field, i), &rule.text("regexp"))?,
                allow_missing: rule.flag("allowMissing"),
                fails_on_match,
            });
        }
    }
    Ok(rules)
}

/// Adds a failure for the first rule that is broken, and returns false then. head is that of the
/// response.
pub fn check(findings: &mut Findings, rules: &[HeaderRule], head: &str) -> bool {
    match rules.iter().find_map(|rule| rule.broken(head, &findings.secrets)) {
        Some(why) => {
            findings.fail_for("body", why);
            false
        }
        None => true,
    }
}

impl HeaderRule {
    /// Returns why a response breaks the rule.
    fn broken(&self, head: &str, secrets: &Secrets) -> Option<String> {
        let values = values_of(head, &self.name.to_ascii_lowercase());
        if values.is_empty() {
            return if self.allow_missing { None } else { Some(format!("the header {} is missing", self.name)) };
        }
        let matching = values.iter().find(|v| self.regexp.matches(v));
        match (self.fails_on_match, matching) {
            (true, Some(value)) => Some(format!("the header {} matches {:?}: {:?}", self.name, self.regexp.text, secrets.excerpt(value))),
            (false, None) => {
                Some(format!("the header {} does not match {:?}: {:?}", self.name, self.regexp.text, secrets.excerpt(&values[0])))
            }
            _ => None,
        }
    }
}

/// Returns the values of a header, each line of it. name is in lower case.
pub fn values_of(head: &str, name: &str) -> Vec<String> {
    let repeated = json::lookup(head, "repeated").map(json::items).unwrap_or_default();
    let lines: Vec<String> = repeated
        .into_iter()
        .filter(|line| json::lookup(line, "name").map(json::text).as_deref() == Some(name))
        .filter_map(|line| Some(json::lookup(line, "value").map(json::text).unwrap_or_default()))
        .collect();
    if !lines.is_empty() {
        return lines;
    }
    let all = json::lookup(head, "headers").map(json::fields).unwrap_or_default();
    all.into_iter().filter(|(n, _)| n == name).map(|(_, value)| json::text(value)).collect()
}
