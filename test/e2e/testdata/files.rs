//! Files describes and reads the file that its config names, and lists its folder.

use prober::{config, files, Outcome, Request};

prober::plugin!(probe);

fn probe(_: &Request) -> prober::Result {
    let (path, folder) = (config::string("path", "")?, config::string("folder", "")?);
    Ok(read(&path, &folder).unwrap_or_else(Outcome::failure))
}

fn read(path: &str, folder: &str) -> std::io::Result<Outcome> {
    let size = files::stat(path)?.size;
    let first = files::list(folder)?.into_iter().next().unwrap_or_default();
    let disk = if files::statfs(folder)?.total > 0 { "a disk" } else { "no disk" };
    let mut buf = [0; 64];
    let n = files::read(path, 2, &mut buf)?;
    Ok(Outcome::success(format!("{} bytes, {}, {}, {}", size, first.name, String::from_utf8_lossy(&buf[..n]), disk)))
}
