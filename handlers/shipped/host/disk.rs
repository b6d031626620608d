//! File systems and files.

use crate::{percent, share, shown_bytes, Bounds, Check};
use common::config::Config;
use prober::files;
use prober::{Error, Result};
use std::io;
use std::time::{Duration, SystemTime};

pub fn validate(config: &Config) -> Result<()> {
    for (i, f) in config.objects("file").iter().enumerate() {
        if f.text("state") == "absent" && ["age", "size", "type"].iter().any(|name| f.get(name).is_some()) {
            return Err(Error::new(format!("file[{}]: a file that must be absent has no age, size and type", i)));
        }
        common::validate_bounds(f, "age").map_err(|e| Error::new(format!("file[{}]: age: {}", i, e)))?;
    }
    Ok(())
}

pub fn check(check: &mut Check, config: &Config) -> Result<()> {
    for disk in config.objects("disk") {
        one_disk(check, &disk);
    }
    for file in config.objects("file") {
        one_file(check, &file);
    }
    Ok(())
}

fn one_disk(check: &mut Check, config: &Config) {
    let path = config.text("path");
    let fs = match files::statfs(&path) {
        Ok(fs) => fs,
        Err(e) => return check.unread(&path, &e),
    };
    if fs.total == 0 {
        return check.findings.fail(format!("{} is on a file system without a size", path));
    }
    let used = fs.total.saturating_sub(fs.free) as f64;
    let used = share(used, used + fs.available as f64); // as df
    let inodes = share(fs.inodes.saturating_sub(fs.inodes_free) as f64, fs.inodes as f64);
    let labels = [("path", path.as_str())];
    check.findings.labelled("disk_used_percent", "", used, &labels);
    check.findings.labelled("disk_available_bytes", "bytes", fs.available as f64, &labels);
    check.findings.labelled("disk_inodes_used_percent", "", inodes, &labels);
    for (field, what, value) in [("used", "used space", used), ("inodesUsed", "used inodes", inodes)] {
        if let Some(bounds) = Bounds::of(config, field) {
            bounds.check(&mut check.findings, &format!("{}: {}", path, what), value, percent);
        }
    }
    if let Some(bounds) = Bounds::of(config, "available") {
        bounds.check(&mut check.findings, &format!("{}: available space", path), fs.available as f64, shown_bytes);
    }
    if let Some(bounds) = Bounds::of(config, "inodesFree") {
        bounds.check(&mut check.findings, &format!("{}: number of free inodes", path), fs.inodes_free as f64, |n| n.to_string());
    }
    if fs.read_only && !config.flag("readOnly") {
        check.findings.fail(format!("{} is mounted read-only", path));
    }
    check.seen.push(format!("{} {}", path, percent(used)));
}

fn one_file(check: &mut Check, config: &Config) {
    let path = config.text("path");
    let absent = config.text("state") == "absent";
    let info = match files::stat(&path) {
        Ok(info) => info,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if absent {
                check.seen.push(format!("no {}", path));
            } else {
                check.findings.fail(format!("{} does not exist", path));
            }
            return;
        }
        Err(e) => return check.unread(&path, &e),
    };
    if absent {
        return check.findings.fail(format!("{} exists", path));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()) as i64;
    let age = Duration::from_secs(now.saturating_sub(info.mtime).max(0) as u64);
    let labels = [("path", path.as_str())];
    check.findings.labelled("file_age_seconds", "s", age.as_secs() as f64, &labels);
    check.findings.labelled("file_size_bytes", "bytes", info.size as f64, &labels);
    let kind = config.text("type");
    if !kind.is_empty() && kind != info.kind {
        check.findings.fail(format!("{} is a {}, want a {}", path, info.kind, kind));
    }
    common::check_bound(&mut check.findings, config, "age", age, |limit| format!("{} was changed {} ago, more than {}", path, shown(age), limit));
    if let Some(bounds) = Bounds::of(config, "size") {
        bounds.check(&mut check.findings, &format!("size of {}", path), info.size as f64, shown_bytes);
    }
    check.seen.push(format!("{} {}", path, shown_bytes(info.size as f64)));
}

/// Returns a duration for a message.
fn shown(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..=119 => format!("{} s", s),
        120..=7199 => format!("{} min", s / 60),
        7200..=172_799 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}
