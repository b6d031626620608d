//! The bounds of a value: the fields equals, min, max, warnBelow and warnAbove.

use crate::config::Config;
use crate::{shorten, Findings};
use prober::json;

/// Fails or warns if a value is out of the bounds of a field. what names the value in messages.
pub fn check(findings: &mut Findings, config: &Config, field: &str, what: &str, value: &str) {
    let bounds = match config.get(field) {
        Some(bounds) => Config(bounds),
        None => return,
    };
    let shown = shorten(value, 80);
    if let Some(want) = bounds.get("equals").map(json::text) {
        let same = value == want || matches!((value.parse::<f64>(), want.parse::<f64>()), (Ok(a), Ok(b)) if a == b);
        if !same {
            return findings.fail_for("body", format!("{} is {:?}, want {:?}", what, shown, want));
        }
    }
    let limits = ["min", "max", "warnBelow", "warnAbove"].map(|name| bounds.number(name));
    if limits.iter().all(Option::is_none) {
        return;
    }
    let number: f64 = match value.trim().parse() {
        Ok(number) => number,
        Err(_) => return findings.fail_for("body", format!("{} is {:?}, which is not a number", what, shown)),
    };
    let is_below = |limit: Option<f64>| limit.filter(|l| !(number >= *l));
    let is_above = |limit: Option<f64>| limit.filter(|l| !(number <= *l));
    let [min, max, warn_below, warn_above] = limits;
    if let Some(limit) = is_below(min) {
        findings.fail_for("body", format!("{} is {}, below {}", what, number, limit));
    } else if let Some(limit) = is_above(max) {
        findings.fail_for("body", format!("{} is {}, above {}", what, number, limit));
    } else if let Some(limit) = is_below(warn_below) {
        findings.warn(format!("{} is {}, below {}", what, number, limit));
    } else if let Some(limit) = is_above(warn_above) {
        findings.warn(format!("{} is {}, above {}", what, number, limit));
    }
}
