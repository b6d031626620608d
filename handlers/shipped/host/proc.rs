//! What /proc says: load, memory and processes.

use crate::{percent, share, shown_bytes, Bounds, Check};
use common::config::Config;
use prober::files;
use prober::Result;
use std::io;

/// The longest name of a process in /proc.
const MAX_NAME: usize = 15;

/// The most bytes of a file of /proc that is read.
const MAX_TEXT: usize = 64 << 10;

pub fn validate(config: &Config) -> Result<()> {
    for (i, p) in config.objects("process").iter().enumerate() {
        let named = ["name", "cmdline", "pidfile"].iter().filter(|f| p.get(f).is_some()).count();
        if named != 1 {
            return Err(format!("process[{}]: set one of name, cmdline, pidfile", i).as_str().into());
        }
    }
    Ok(())
}

pub fn check(check: &mut Check, config: &Config) {
    let root = config.text("proc");
    if let Some(doc) = config.get("load") {
        load(check, &Config(doc), &root);
    }
    if let Some(doc) = config.get("memory") {
        memory(check, &Config(doc), &root);
    }
    let wanted = config.objects("process");
    if !wanted.is_empty() {
        processes(check, &wanted, &root);
    }
}

/// Reads a file of /proc. It returns None if that failed.
fn read(check: &mut Check, path: &str) -> Option<String> {
    match files::read_text(path, MAX_TEXT) {
        Ok(text) => Some(text),
        Err(e) => {
            check.unread(path, &e);
            None
        }
    }
}

fn load(check: &mut Check, config: &Config, root: &str) {
    let path = format!("{}/loadavg", root);
    let text = read(check, &path);
    let cpus = if config.flag("perCPU") { read(check, &format!("{}/stat", root)).map(|t| count_cpus(&t)) } else { Some(1) };
    let (text, cpus) = match (text, cpus) {
        (Some(text), Some(cpus)) => (text, cpus),
        _ => return,
    };
    let values: Vec<f64> = text.split_whitespace().take(3).filter_map(|n| n.parse().ok()).collect();
    if values.len() < 3 || cpus == 0 {
        return check.findings.fail(format!("{} has no load: {:?}", path, common::shorten(&text, 80)));
    }
    let per = if config.flag("perCPU") { " per CPU" } else { "" };
    for (value, (field, minutes)) in values.iter().zip([("one", "1"), ("five", "5"), ("fifteen", "15")]) {
        let value = value / cpus as f64;
        check.findings.labelled("load", "", value, &[("minutes", minutes)]);
        if let Some(bounds) = Bounds::of(config, field) {
            bounds.check(&mut check.findings, &format!("load of {} min{}", minutes, per), value, |v| format!("{:.2}", v));
        }
    }
    check.seen.push(format!("load {:.2}{}", values[0] / cpus as f64, per));
}

/// Returns the number of CPUs in /proc/stat: its lines that begin with cpu and a digit.
fn count_cpus(stat: &str) -> usize {
    let is_cpu = |line: &&str| line.strip_prefix("cpu").map_or(false, |rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    stat.lines().filter(is_cpu).count()
}

fn memory(check: &mut Check, config: &Config, root: &str) {
    let path = format!("{}/meminfo", root);
    let text = match read(check, &path) {
        Some(text) => text,
        None => return,
    };
    let field = |name: &str| kib(&text, name).map(|n| n * 1024.0);
    let (total, available) = match (field("MemTotal"), field("MemAvailable")) {
        (Some(total), Some(available)) if total > 0.0 => (total, available),
        _ => return check.findings.fail(format!("{} has no MemTotal and MemAvailable", path)),
    };
    let used = share(total - available, total);
    let swap_total = field("SwapTotal").unwrap_or_default();
    let swap = share(swap_total - field("SwapFree").unwrap_or_default(), swap_total);
    check.findings.metric("memory_used_percent", "", used);
    check.findings.metric("swap_used_percent", "", swap);
    for (name, what, value) in [("used", "used memory", used), ("swapUsed", "used swap", swap)] {
        if let Some(bounds) = Bounds::of(config, name) {
            bounds.check(&mut check.findings, what, value, percent);
        }
    }
    if let Some(bounds) = Bounds::of(config, "available") {
        bounds.check(&mut check.findings, "available memory", available, shown_bytes);
    }
    check.seen.push(format!("memory {}", percent(used)));
}

/// Returns a value of /proc/meminfo.
fn kib(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A running process.
struct Process {
    name: String,
    cmdline: String, // "" unless a check needs it
}

fn processes(check: &mut Check, wanted: &[Config], root: &str) {
    let lists = wanted.iter().any(|p| p.get("pidfile").is_none());
    let needs_cmdline = wanted.iter().any(|p| p.get("cmdline").is_some());
    let all = if lists { snapshot(check, root, needs_cmdline) } else { Some(Vec::new()) };
    for p in wanted {
        let (name, cmdline, pidfile) = (p.text("name"), p.text("cmdline"), p.text("pidfile"));
        let (title, count) = match &all {
            _ if !pidfile.is_empty() => (pidfile.clone(), by_pidfile(check, root, &pidfile)),
            None => continue,
            Some(all) if !name.is_empty() => (name.clone(), Some(all.iter().filter(|p| same_name(&p.name, &name)).count())),
            Some(all) => (cmdline.clone(), Some(all.iter().filter(|p| p.cmdline.contains(&cmdline)).count())),
        };
        let count = match count {
            Some(count) => count as f64,
            None => continue,
        };
        check.findings.labelled("processes", "", count, &[("process", &title)]);
        let what = format!("number of processes {}", title);
        match Bounds::of(p, "count") {
            Some(bounds) => bounds.check(&mut check.findings, &what, count, |v| v.to_string()),
            None if count < 1.0 => check.findings.fail(format!("no process {}", title)),
            None => {}
        }
        check.seen.push(format!("{} of {}", count, title));
    }
}

/// Compares the name of a process with a wanted one, of which /proc has the beginning.
fn same_name(got: &str, want: &str) -> bool {
    got == want || want.len() > MAX_NAME && got.len() == MAX_NAME && want.starts_with(got)
}

/// Returns the running processes, or None if they cannot be listed.
fn snapshot(check: &mut Check, root: &str, cmdlines: bool) -> Option<Vec<Process>> {
    let entries = match files::list(root) {
        Ok(entries) => entries,
        Err(e) => {
            check.unread(root, &e);
            for name in if cmdlines { &["stat", "cmdline"][..] } else { &["stat"] } {
                check.unread(&format!("{}/*/{}", root, name), &e);
            }
            return None;
        }
    };
    let mut all = Vec::new();
    for pid in entries.iter().filter(|e| e.name.bytes().all(|c| c.is_ascii_digit())) {
        let process = match stat(root, &pid.name) {
            Ok(Some(name)) => Process { name, cmdline: String::new() },
            Ok(None) => continue,
            Err(e) => {
                check.unread(&format!("{}/*/stat", root), &e);
                if cmdlines {
                    if let Err(e) = cmdline(root, &pid.name) {
                        check.unread(&format!("{}/*/cmdline", root), &e);
                    }
                }
                return None;
            }
        };
        let cmdline = if cmdlines { cmdline(root, &pid.name) } else { Ok(String::new()) };
        match cmdline {
            Ok(cmdline) => all.push(Process { cmdline, ..process }),
            Err(e) => {
                check.unread(&format!("{}/*/cmdline", root), &e);
                return None;
            }
        }
    }
    Some(all)
}

/// Reports whether an error means that a process has ended.
fn has_ended(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || e.to_string().ends_with("no such process")
}

/// Returns the name of a process, or None if there is none, or only its zombie.
fn stat(root: &str, pid: &str) -> io::Result<Option<String>> {
    match files::read_text(&format!("{}/{}/stat", root, pid), 1024) {
        Ok(text) => Ok(parse_stat(&text)),
        Err(e) if has_ended(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the name in /proc/PID/stat, which is in parentheses and may have more of them; None for a zombie.
fn parse_stat(text: &str) -> Option<String> {
    let (first, last) = (text.find('(')?, text.rfind(')')?);
    let state = text.get(last + 1..)?.trim_start().chars().next()?;
    if matches!(state, 'Z' | 'X' | 'x') {
        return None;
    }
    text.get(first + 1..last).map(String::from)
}

/// Returns the arguments of a process, separated by spaces.
fn cmdline(root: &str, pid: &str) -> io::Result<String> {
    match files::read_text(&format!("{}/{}/cmdline", root, pid), 4096) {
        Ok(text) => Ok(text.replace('\0', " ")),
        Err(e) if has_ended(&e) => Ok(String::new()),
        Err(e) => Err(e),
    }
}

/// Returns whether the process of a PID file runs, as a number. None means that the file cannot be read.
fn by_pidfile(check: &mut Check, root: &str, path: &str) -> Option<usize> {
    let text = match files::read_text(path, 64) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Some(0),
        Err(e) => {
            check.unread(path, &e);
            return None;
        }
    };
    let pid = text.trim();
    if pid.is_empty() || pid.len() > 10 || !pid.bytes().all(|c| c.is_ascii_digit()) {
        check.findings.fail(format!("{} has no process ID: {:?}", path, common::shorten(pid, 20)));
        return None;
    }
    match stat(root, pid) {
        Ok(name) => Some(name.map_or(0, |_| 1)),
        Err(e) => {
            check.unread(&format!("{}/*/stat", root), &e);
            None
        }
    }
}
