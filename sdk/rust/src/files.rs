//! Files of the host, for reading. The manifest requests the capability "files", and the operator grants paths.
//! Paths are absolute, without "." and "..".

use crate::{check, host, json, pull};
use std::io;

/// What is known about a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// "file", "directory", "fifo", "socket", "device" or "other".
    pub kind: String,
    /// The size in bytes.
    pub size: u64,
    /// The permission bits, such as 0o644.
    pub mode: u32,
    /// The time of the last change, in seconds since 1970.
    pub mtime: i64,
    pub uid: u32,
    pub gid: u32,
}

/// The numbers of a file system, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filesystem {
    pub total: u64,
    pub free: u64,
    /// The part of free that every user may use.
    pub available: u64,
    /// 0 if the file system has no fixed number of inodes.
    pub inodes: u64,
    pub inodes_free: u64,
    pub read_only: bool,
}

/// An entry of a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub name: String,
    /// As in [Info], or "symlink".
    pub kind: String,
}

/// Returns what is known about a file, after its symbolic links.
pub fn stat(path: &str) -> io::Result<Info> {
    let doc = document(256, |buf, cap| unsafe { host::files_stat(path.as_ptr(), path.len(), buf, cap) })?;
    Ok(info(&doc))
}

/// Returns the numbers of the file system of a path. Hosts other than Linux do not support it.
pub fn statfs(path: &str) -> io::Result<Filesystem> {
    let doc = document(256, |buf, cap| unsafe { host::files_statfs(path.as_ptr(), path.len(), buf, cap) })?;
    Ok(filesystem(&doc))
}

/// Returns the entries of a folder, sorted by name.
pub fn list(path: &str) -> io::Result<Vec<Entry>> {
    let doc = document(4096, |buf, cap| unsafe { host::files_list(path.as_ptr(), path.len(), buf, cap) })?;
    Ok(entries(&doc))
}

/// Reads a regular file from an offset on, and returns the number of bytes. 0 is the end.
pub fn read(path: &str, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    check(unsafe { host::files_read(path.as_ptr(), path.len(), offset as i64, buf.as_mut_ptr(), buf.len()) })
}

/// Returns at most the first most bytes of a regular file as text.
pub fn read_text(path: &str, most: usize) -> io::Result<String> {
    let mut buf = vec![0; most];
    let n = read(path, 0, &mut buf)?;
    Ok(String::from_utf8_lossy(&buf[..n.min(most)]).into_owned())
}

fn document(size: usize, call: impl Fn(*mut u8, usize) -> i32) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&pull(size, call)?).into_owned())
}

fn text(doc: &str, path: &str) -> String {
    json::lookup(doc, path).map(json::text).unwrap_or_default()
}

fn number<T: std::str::FromStr + Default>(doc: &str, path: &str) -> T {
    text(doc, path).parse().unwrap_or_default()
}

fn info(doc: &str) -> Info {
    Info {
        kind: text(doc, "type"),
        size: number(doc, "size"),
        mode: number(doc, "mode"),
        mtime: number(doc, "mtime"),
        uid: number(doc, "uid"),
        gid: number(doc, "gid"),
    }
}

fn filesystem(doc: &str) -> Filesystem {
    Filesystem {
        total: number(doc, "total"),
        free: number(doc, "free"),
        available: number(doc, "available"),
        inodes: number(doc, "inodes"),
        inodes_free: number(doc, "inodesFree"),
        read_only: text(doc, "readOnly") == "true",
    }
}

fn entries(doc: &str) -> Vec<Entry> {
    let list = json::lookup(doc, "entries").unwrap_or("[]");
    json::items(list).into_iter().map(|e| Entry { name: text(e, "name"), kind: text(e, "type") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read() {
        let got = info(r#"{"type":"file","size":10,"mode":420,"mtime":1700000000,"uid":1000}"#);
        assert_eq!(got, Info { kind: "file".into(), size: 10, mode: 0o644, mtime: 1_700_000_000, uid: 1000, gid: 0 });
        let got = filesystem(r#"{"total":100,"free":50,"available":40,"inodes":9,"inodesFree":3,"readOnly":true}"#);
        assert_eq!(got, Filesystem { total: 100, free: 50, available: 40, inodes: 9, inodes_free: 3, read_only: true });
        assert_eq!(entries("{}"), []);
        let got = entries(r#"{"entries":[{"name":"a","type":"file"},{"name":"b\n","type":"directory"}]}"#);
        assert_eq!(got, [Entry { name: "a".into(), kind: "file".into() }, Entry { name: "b\n".into(), kind: "directory".into() }]);
    }
}
