//! Dns asks its target for a name.

use prober::{dns, Outcome, Request};

prober::plugin!(probe);

fn probe(_: &Request) -> prober::Result {
    Ok(look_up().unwrap_or_else(Outcome::failure))
}

fn look_up() -> std::io::Result<Outcome> {
    let answer = dns::lookup("db.test", "A", "target", None)?;
    let data = answer.records.first().map(|r| r.data.as_str()).unwrap_or_default();
    Ok(Outcome::success(format!("{} {}", answer.rcode, data)))
}
