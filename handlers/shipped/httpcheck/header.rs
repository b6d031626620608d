//! The rules about headers of the response, and their dates.

use common::config::Config;
use common::regexp::Regexp;
use common::{shorten, Findings};
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
    match rules.iter().find_map(|rule| rule.broken(head)) {
        Some(why) => {
            findings.fail_for("body", why);
            false
        }
        None => true,
    }
}

impl HeaderRule {
    /// Returns why a response breaks the rule.
    fn broken(&self, head: &str) -> Option<String> {
        let values = values_of(head, &self.name.to_ascii_lowercase());
        if values.is_empty() {
            return if self.allow_missing { None } else { Some(format!("the header {} is missing", self.name)) };
        }
        let matching = values.iter().find(|v| self.regexp.matches(v));
        match (self.fails_on_match, matching) {
            (true, Some(value)) => Some(format!("the header {} matches {:?}: {:?}", self.name, self.regexp.text, shorten(value, 80))),
            (false, None) => {
                Some(format!("the header {} does not match {:?}: {:?}", self.name, self.regexp.text, shorten(&values[0], 80)))
            }
            _ => None,
        }
    }
}

/// Returns the values of a header, each line of it.
fn values_of(head: &str, name: &str) -> Vec<String> {
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

/// Returns the seconds since 1970 of a date of HTTP in its usual form, "Mon, 02 Jan 2006 15:04:05 GMT".
pub fn http_date(text: &str) -> Option<i64> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, zone] = <[&str; 6]>::try_from(fields).ok()?;
    if zone != "GMT" {
        return None;
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == month)? as i64 + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<i64> = time.split(':').map_while(|n| n.parse().ok()).collect();
    let [hours, minutes, seconds] = <[i64; 3]>::try_from(clock).ok()?;
    Some(days(year, month, day) * 86400 + hours * 3600 + minutes * 60 + seconds)
}

/// Returns the days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468
}
