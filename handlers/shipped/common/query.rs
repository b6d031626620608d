//! The check of an answer to a query, by the fields value and rows.

use crate::bounds;
use crate::config::Config;
use crate::Findings;

/// Checks the first value, which is None for NULL or without a row, and the number of rows. It adds their metrics.
pub fn check(findings: &mut Findings, config: &Config, value: Option<&str>, rows: u64) {
    findings.metric("query_rows", "", rows as f64);
    if let Some(number) = value.and_then(|v| v.trim().parse::<f64>().ok()) {
        findings.metric("query_value", "", number);
    }
    bounds::check(findings, config, "rows", "the number of rows", &rows.to_string());
    match value {
        Some(value) => bounds::check(findings, config, "value", "the value", value),
        None if config.get("value").is_none() => {}
        None if rows == 0 => findings.fail_for("body", "the query has no row"),
        None => findings.fail_for("body", "the value is NULL"),
    }
}

/// Returns what a query has found, for a message.
pub fn summary(value: Option<&str>, rows: u64) -> String {
    match value {
        Some(value) if rows == 1 => crate::peer::shown(value.as_bytes()),
        _ if rows == 1 => "1 row".into(),
        _ => format!("{} rows", rows),
    }
}

/// Checks that fields about a query have one.
pub fn validate(config: &Config) -> prober::Result<()> {
    for name in ["value", "rows"] {
        if config.get(name).is_some() && config.get("query").is_none() {
            return Err(format!("{}: needs a query", name).into());
        }
    }
    Ok(())
}
