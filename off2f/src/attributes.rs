// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended attributes of a program: capabilities, access control lists, labels, signatures. What
//! takes its place has the same, or does not take its place.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr};
use rustix::io::Errno;

use crate::error::Failure;

/// The kernel's limit for a list of names, and for a value.
const MOST_BYTES: usize = 65536;
/// A new file may inherit it from its folder.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const INTEGRITY: &CStr = c"security.evm";
/// First byte of a sum that the kernel keyed for one inode; another inode gets its own.
const INTEGRITY_OF_INODE: u8 = 2;

/// The attributes of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Attributes {
    list: Vec<(CString, Vec<u8>)>,
}

fn names(bytes: &[u8]) -> Vec<CString> {
    bytes
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
        .map(CStr::to_owned)
        .collect()
}

/// A file system without attributes has none.
fn or_none<T: Default>(result: Result<T, Errno>) -> Result<T, Errno> {
    match result {
        Err(Errno::OPNOTSUPP) => Ok(T::default()),
        other => other,
    }
}

impl Attributes {
    /// All attributes of a file that the caller may see.
    ///
    /// # Errors
    /// [`Failure::Io`].
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let failed = |error: Errno| Failure::io(path)(error.into());
        let mut bytes = vec![0; MOST_BYTES];
        let count = or_none(listxattr(path, &mut bytes[..])).map_err(failed)?;
        let mut list = Vec::new();
        for name in names(&bytes[..count]) {
            let mut value = vec![0; MOST_BYTES];
            match getxattr(path, name.as_c_str(), &mut value[..]) {
                Ok(count) => value.truncate(count),
                Err(Errno::NODATA) => continue, // removed meanwhile
                Err(error) => return Err(failed(error)),
            }
            if name.as_c_str() != INTEGRITY || value.first() != Some(&INTEGRITY_OF_INODE) {
                list.push((name, value));
            }
        }
        Ok(Self { list })
    }

    /// Gives a new file these attributes, and no access control list that its folder gave it. Before
    /// its mode is set, of which such a list is a part; after its owner and content, each change of
    /// which takes capabilities away.
    ///
    /// # Errors
    /// [`Failure::Attribute`] with the first that the file system does not keep.
    pub fn put(&self, file: &File, path: &Path) -> Result<(), Failure> {
        let mut bytes = vec![0; MOST_BYTES];
        let count = or_none(flistxattr(file, &mut bytes[..]));
        let count = count.map_err(|error| Failure::io(path)(error.into()))?;
        let inherited = names(&bytes[..count])
            .iter()
            .any(|name| name.as_c_str() == ACCESS_LIST);
        if inherited {
            fremovexattr(file, ACCESS_LIST).map_err(|error| lost(ACCESS_LIST, path, error))?;
        }
        for (name, value) in &self.list {
            fsetxattr(file, name.as_c_str(), value, XattrFlags::empty())
                .map_err(|error| lost(name, path, error))?;
        }
        Ok(())
    }
}

fn lost(name: &CStr, path: &Path, error: Errno) -> Failure {
    Failure::Attribute {
        name: name.to_string_lossy().into_owned(),
        path: path.to_owned(),
        source: io::Error::from(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn attribute_that_is_not_kept_is_named() {
        let file = tempfile::tempfile().unwrap();
        let name = c"of-no-namespace.label".to_owned();
        let attributes = Attributes {
            list: vec![(name, b"value".to_vec())],
        };
        let error = attributes.put(&file, Path::new("/usr/bin/program"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("of-no-namespace.label"), "{error}");
        assert!(error.contains("/usr/bin/program"), "{error}");
    }
}
