//! Values that a probe keeps from attempt to attempt. The manifest requests the capability
//! "kv".

use crate::{check, host, pull};
use std::io;

/// Returns the value of a key, or None.
pub fn get(key: &str) -> io::Result<Option<Vec<u8>>> {
    match pull(256, |buf, cap| unsafe { host::kv_get(key.as_ptr(), key.len(), buf, cap) }) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        value => value.map(Some),
    }
}

/// Sets the value of a key. It is only kept if the attempt ends with an outcome.
pub fn set(key: &str, value: impl AsRef<[u8]>) -> io::Result<()> {
    let value = value.as_ref();
    check(unsafe { host::kv_set(key.as_ptr(), key.len(), value.as_ptr(), value.len()) }).map(|_| ())
}

/// Removes a key, if it exists.
pub fn delete(key: &str) -> io::Result<()> {
    check(unsafe { host::kv_delete(key.as_ptr(), key.len()) }).map(|_| ())
}
