// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signatures for Secure Boot, by sbsign(1).

use std::fs;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, at};
use crate::pe::{Headers, payload};
use crate::system::{System, run};

const KEY: &str = "/etc/remanence/secure-boot.key";
const CERTIFICATE: &str = "/etc/remanence/secure-boot.crt";

/// Files with a key and its certificate (PEM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The private key.
    pub key: PathBuf,
    /// The certificate, which firmware has enrolled.
    pub certificate: PathBuf,
}

impl Keys {
    /// What is given, or what the administrator has put into /etc; `None` if there is nothing.
    ///
    /// # Errors
    /// One line, if one of the two files is not there.
    pub fn choose(system: &System, given: Option<Self>) -> Result<Option<Self>, Fault> {
        let own = || Self {
            key: KEY.into(),
            certificate: CERTIFICATE.into(),
        };
        let is_given = given.is_some();
        let keys = given.unwrap_or_else(own);
        let [key, certificate] = [&keys.key, &keys.certificate].map(|path| system.path(path));
        if !is_given && !key.exists() && !certificate.exists() {
            return Ok(None);
        }
        for path in [&key, &certificate] {
            fs::File::open(path).map_err(at(path.display()))?;
        }
        Ok(Some(Self { key, certificate }))
    }

    /// The image with a signature.
    ///
    /// # Errors
    /// That of sbsign, or one line if what it wrote is something else.
    pub fn sign(&self, system: &System, image: &[u8]) -> Result<Vec<u8>, Fault> {
        let program = system.program("sbsign", "sbsigntool")?;
        let folder = tempfile::tempdir().map_err(at("a folder to sign in"))?;
        let [plain, signed] = ["plain.efi", "signed.efi"].map(|name| folder.path().join(name));
        fs::write(&plain, image).map_err(at(plain.display()))?;
        let words: [&Path; 7] = [
            Path::new("--key"),
            &self.key,
            Path::new("--cert"),
            &self.certificate,
            Path::new("--output"),
            &signed,
            &plain,
        ];
        run(&program, &words)?;
        let signed = fs::read(&signed).map_err(at("sbsign: what it has written"))?;
        let is_signed = Headers::read(&signed, signed.len() as u64)?
            .signature
            .is_some();
        if !is_signed || payload(&signed)? != payload(image)? {
            return Err(Fault::new(
                "sbsign: what it has written is not the image with a signature",
            ));
        }
        Ok(signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::tests::loader;
    use crate::system::tests::Fake;

    fn keys(fake: &Fake) -> Keys {
        fake.write("etc/remanence/secure-boot.key", "KEY");
        fake.write("etc/remanence/secure-boot.crt", "CRT");
        Keys::choose(&fake.system(), None).unwrap().unwrap()
    }

    #[test]
    fn keys_are_both_there_or_none() {
        let fake = Fake::new();
        assert_eq!(Keys::choose(&fake.system(), None).unwrap(), None);
        fake.write("etc/remanence/secure-boot.key", "KEY");
        let why = Keys::choose(&fake.system(), None).unwrap_err().to_string();
        assert!(why.contains("secure-boot.crt: No such file"), "{why}");
        let given = Keys {
            key: "/none.key".into(),
            certificate: "/none.crt".into(),
        };
        let why = Keys::choose(&fake.system(), Some(given))
            .unwrap_err()
            .to_string();
        assert!(why.contains("none.key: No such file"), "{why}");
    }

    #[test]
    fn only_a_signed_image_is_taken() {
        let fake = Fake::new();
        let keys = keys(&fake);
        let sign = || keys.sign(&fake.system(), &loader());
        let why = sign().unwrap_err().to_string();
        assert_eq!(
            why,
            "the program sbsign is not there: apt install sbsigntool"
        );
        fake.add_program("sbsign");
        let signed = sign().unwrap();
        assert!(signed.len() > loader().len());
        assert_eq!(payload(&signed).unwrap(), loader());
        let log = fake.read("bin/sbsign.log");
        let key = fake.path("etc/remanence/secure-boot.key");
        assert!(
            log.starts_with(&format!("--key {} --cert ", key.display())),
            "{log}"
        );
        for (mode, why) in [
            (
                "copy",
                "sbsign: what it has written is not the image with a signature",
            ),
            (
                "spoil",
                "sbsign: what it has written is not the image with a signature",
            ),
            ("fail", "sbsign: error reading the key"),
            (
                "nothing",
                "sbsign: what it has written: No such file or directory (os error 2)",
            ),
        ] {
            fake.write("bin/sbsign.mode", mode);
            assert_eq!(sign().unwrap_err().to_string(), why);
        }
    }
}
