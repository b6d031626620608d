//! Icmp pings its target.

use prober::{icmp, Outcome, Request};

prober::plugin!(probe);

fn probe(_: &Request) -> prober::Result {
    Ok(ping().unwrap_or_else(Outcome::failure))
}

fn ping() -> std::io::Result<Outcome> {
    let reply = icmp::echo(&icmp::Request { payload: 1400, ..Default::default() }, None)?;
    Ok(Outcome::success(format!("{} replied with {} bytes", reply.remote, reply.payload)))
}
