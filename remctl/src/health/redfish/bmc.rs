// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A BMC that is asked by Redfish: where it is, who asks, how it is known to be the right one, and
//! its answers. HTTP and TLS are curl(1)'s, which gets all it needs to know from a pipe.

use std::fmt::Write;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::Service;
use crate::fault::{Fault, at};
use crate::health::read::{self, Question};
use crate::system::System;

/// What an administrator writes.
const FILE: &str = "etc/remanence/redfish.toml";
/// Its name in a report, which is short.
pub const NAME: &str = "redfish.toml";
const FILE_BYTES: u64 = 4096;
const OTHERS: u32 = 0o077;

/// All questions of a pass. The next pass begins after a minute.
const PASS: Duration = Duration::from_secs(40);
const CONNECT_S: u32 = 5;
/// For one answer.
const ANSWER_S: u32 = 10;
/// One answer, and all answers of one run of curl. A supply has some kilobytes.
const ANSWER_BYTES: u64 = 1 << 18;
const RUN_BYTES: u64 = 1 << 20;
/// Chassis, or supplies: far more than an enclosure has.
pub const LINKS_MAX: usize = 64;
const LINK_BYTES: usize = 512;

/// It is in no JSON, so it separates answers from their codes.
const SEPARATOR: char = '\u{1e}';
const WELL: &str = "200";
const NOT_LET_IN: &str = "401";

const SCHEME: &str = "https://";
const PIN: &str = "sha256//";
/// Of SHA-256 as base64.
const PIN_BYTES: usize = 44;

/// What the file says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    url: String,
    user: String,
    password: String,
    /// Certificates of who may have signed the BMC's, in place of those that the system trusts.
    ca: Option<PathBuf>,
    /// The hash of the BMC's public key: who signed its certificate does not matter then.
    pin: Option<String>,
}

/// A BMC, for one pass.
pub struct Bmc<'a> {
    system: &'a System,
    words: Words,
    end: Instant,
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// A path of the service, and nothing that means more to curl, or another machine.
fn is_path(path: &str) -> bool {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%$@!&'()*+,;=:?".contains(&byte);
    path.starts_with('/') && path.len() <= LINK_BYTES && path.bytes().all(kept)
}

/// What is wrong with the file, without its text: a line may be the password's, and everybody
/// may read a report.
fn line(text: &str, error: &toml::de::Error) -> Fault {
    let why = error.message().lines().next().unwrap_or_default();
    if why.starts_with("missing field") || why.starts_with("unknown field") {
        return Fault::new(why.replace('`', ""));
    }
    let before = error.span().and_then(|span| text.get(..span.start));
    let number = before.unwrap_or_default().matches('\n').count() + 1;
    Fault::new(format!("line {number} is not NAME = 'TEXT'"))
}

impl Words {
    fn parse(text: &str) -> Result<Self, Fault> {
        let words: Self = toml::from_str(text).map_err(|error| line(text, &error))?;
        words.check().map_or(Ok(()), |why| Err(Fault::new(why)))?;
        Ok(words)
    }

    /// What is wrong, if anything is.
    fn check(&self) -> Option<&'static str> {
        let host = self.url.strip_prefix(SCHEME).unwrap_or_default();
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
        if host.is_empty() || !host.trim_end_matches('/').bytes().all(kept) {
            return Some("url: it is https://HOST or https://HOST:PORT");
        }
        if self.user.is_empty() || self.user.contains(':') || !is_plain(&self.user) {
            return Some("user: it is empty, or has a colon or a control character");
        }
        if !is_plain(&self.password) {
            return Some("password: it has a control character");
        }
        let ca = self.ca.iter();
        let mut ca = ca.map(|path| path.to_str().unwrap_or_default());
        if ca.any(|path| !path.starts_with('/') || !is_plain(path)) {
            return Some("ca: it is no absolute path");
        }
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        let is_pin = |pin: &String| {
            let hash = pin.strip_prefix(PIN).unwrap_or_default();
            hash.len() == PIN_BYTES && hash.bytes().all(kept)
        };
        let pin = self.pin.as_ref().is_none_or(is_pin);
        (!pin).then_some("pin: it is sha256// and 44 letters of base64")
    }

    /// For curl's standard input.
    fn config(&self, system: &System, paths: &[String]) -> String {
        let mut text = format!(
            "silent\ngloboff\nhttp1.1\ntlsv1.2\nfail-early\nproto = \"=https\"\nnoproxy = \"*\"\n\
             connect-timeout = {CONNECT_S}\nmax-time = {ANSWER_S}\nmax-filesize = {ANSWER_BYTES}\n\
             header = \"Accept: application/json\"\nheader = \"OData-Version: 4.0\"\n\
             write-out = \"{SEPARATOR}%{{http_code}}{SEPARATOR}\"\n"
        );
        let mut add = |name: &str, value: &str| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(text, "{name} = \"{value}\"");
        };
        add("user", &format!("{}:{}", self.user, self.password));
        if let Some(ca) = &self.ca {
            add("cacert", &system.path(ca).to_string_lossy());
            // Otherwise those that the system trusts would do as well.
            add("capath", "/nonexistent");
        }
        if let Some(pin) = &self.pin {
            add("pinnedpubkey", pin);
        }
        for path in paths {
            add("url", &format!("{}{path}", self.url.trim_end_matches('/')));
        }
        if self.pin.is_some() && self.ca.is_none() {
            text.push_str("insecure\n");
        }
        text
    }
}

/// Why curl has failed, by its exit code.
fn failure(code: Option<i32>) -> String {
    let why = match code {
        Some(5 | 6) => "its name is not known",
        Some(7) => "it cannot be reached",
        Some(23 | 63) => "an answer is too long",
        Some(28) => "it is silent, or too slow",
        Some(35) => "no TLS connection",
        Some(60) => "its certificate is not trusted",
        Some(77) => "the file of ca is no certificate",
        Some(90) => "its key is not that of pin",
        Some(code) => return format!("curl: exit status {code}"),
        None => "curl was ended",
    };
    why.to_owned()
}

/// Each answer, with nothing but well ones.
fn answers(said: &str, paths: &[String]) -> Result<Vec<Value>, Fault> {
    let parts: Vec<&str> = said.split(SEPARATOR).collect();
    let mut found = Vec::new();
    for (path, part) in paths.iter().zip(parts.chunks(2)) {
        let &[body, code] = part else {
            break;
        };
        match code {
            WELL => {}
            NOT_LET_IN => return Err(Fault::new("user or password is wrong")),
            _ => return Err(Fault::new(format!("HTTP {code} at {path}"))),
        }
        let value = serde_json::from_str(body);
        found.push(value.map_err(|_| Fault::new(format!("no JSON at {path}")))?);
    }
    if found.len() != paths.len() || parts.len() != 2 * paths.len() + 1 {
        return Err(Fault::new("answers are missing"));
    }
    Ok(found)
}

impl<'a> Bmc<'a> {
    /// The one that the file names; none: there is no file.
    ///
    /// # Errors
    /// One line, if it is wrong, or others than root may read it.
    pub fn read(system: &'a System) -> Result<Option<Self>, Fault> {
        let file = match File::open(system.path(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at("it cannot be read")(error)),
        };
        let found = file.metadata().map_err(at("it cannot be read"))?;
        let own = rustix::process::geteuid().as_raw();
        if found.uid() != own || found.mode() & OTHERS != 0 {
            let why = "it has a password, and is not root's alone: chown root, chmod 600";
            return Err(Fault::new(why));
        }
        let text = read::bounded(file, FILE_BYTES).map_err(at("it cannot be read"))?;
        Ok(Some(Self {
            system,
            words: Words::parse(&text)?,
            end: Instant::now() + PASS,
        }))
    }
}

impl Service for Bmc<'_> {
    /// In one connection; those that are there, are JSON, and come in time.
    fn get(&self, paths: &[String]) -> Result<Vec<Value>, Fault> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        if paths.len() > LINKS_MAX {
            return Err(Fault::new(format!("more than {LINKS_MAX} links")));
        }
        let left = self.end.saturating_duration_since(Instant::now());
        let left_s = u32::try_from(left.as_secs()).unwrap_or_default();
        if left_s == 0 {
            let why = format!("it takes longer than {} s", PASS.as_secs());
            return Err(Fault::new(why));
        }
        let question = Question {
            program: ("curl", "curl"),
            words: &["--disable", "--config", "-"],
            input: &self.words.config(self.system, paths),
            limit_s: left_s,
            bytes: RUN_BYTES,
        };
        let (status, said) = read::ask(self.system, &question)?;
        // A code that is no success tells more than what curl makes of it.
        let found = answers(&said, paths);
        match status.code() {
            Some(0) => found,
            code => Err(Fault::new(failure(code))),
        }
    }
}

/// The path of a link.
#[must_use]
pub fn link(of: &Value, name: &str) -> Option<String> {
    path_of(of.get(name)?)
}

/// The path that a reference has.
#[must_use]
pub fn path_of(reference: &Value) -> Option<String> {
    path_in(reference.get("@odata.id")?)
}

/// A word that is a path of the service.
#[must_use]
pub fn path_in(word: &Value) -> Option<String> {
    let path = word.as_str()?;
    is_path(path).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;

    const WORDS: &str = "url = 'https://bmc'\nuser = 'remanence'\npassword = 'x'\n";

    fn why(text: &str) -> String {
        let parsed = Words::parse(text);
        parsed.err().map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn the_file_says_what_is_wrong_with_it() {
        for url in [
            "https://bmc",
            "https://10.0.0.1:8443/",
            "https://[fe80::1%25usb0]",
        ] {
            assert_eq!(why(&WORDS.replace("https://bmc", url)), "");
        }
        for url in [
            "http://bmc",
            "https://",
            "https://a@bmc",
            "https://bmc/redfish",
            "bmc",
            "",
        ] {
            let text = WORDS.replace("https://bmc", url);
            assert!(why(&text).starts_with("url: it is https://HOST"), "{url}");
        }
        assert_eq!(
            why("url = 'https://bmc'\nuser = 'x'\n"),
            "missing field password"
        );
        let unknown = why(&format!("{WORDS}verify = false\n"));
        assert!(unknown.starts_with("unknown field verify"), "{unknown}");
        let user = WORDS.replace("remanence", "a:b");
        assert!(why(&user).starts_with("user: "), "{user}");
        let password = WORDS.replace("'x'", "\"a\\nurl\"");
        assert!(why(&password).starts_with("password: "), "{password}");
        assert!(why(&format!("{WORDS}ca = 'bmc.pem'\n")).starts_with("ca: "));
        assert!(why(&format!("{WORDS}pin = 'sha256//x'\n")).starts_with("pin: "));
        let pin = format!("{WORDS}pin = 'sha256//{}='\n", "A".repeat(43));
        assert_eq!(why(&pin), "");
        // The line that is wrong may be the password's.
        for text in ["'secret", "4711", "secret", "[4711]", "'x' secret"] {
            let text = WORDS.replace("'x'", text);
            assert_eq!(why(&text), "line 3 is not NAME = 'TEXT'", "{text}");
        }
    }

    #[test]
    fn curl_is_told_how_to_know_the_bmc() {
        let fake = Fake::new();
        let config = |more: &str| {
            let words = Words::parse(&format!("{WORDS}{more}")).unwrap();
            words.config(&fake.system(), &["/a".to_owned(), "/b".to_owned()])
        };
        let usual = config("");
        assert!(!usual.contains("insecure") && !usual.contains("cacert"));
        assert!(usual.ends_with("url = \"https://bmc/a\"\nurl = \"https://bmc/b\"\n"));
        let pin = format!("pin = 'sha256//{}='\n", "A".repeat(43));
        assert!(config(&pin).contains("insecure"));
        let both = config(&format!("{pin}ca = '/x.pem'\n"));
        assert!(both.contains("pinnedpubkey") && both.contains("cacert"));
        assert!(!both.contains("insecure"));
        let words = WORDS.replace("'x'", "'a\"\\'");
        let words = Words::parse(&words).unwrap();
        let text = words.config(&fake.system(), &[]);
        assert!(text.contains("user = \"remanence:a\\\"\\\\\"\n"), "{text}");
    }

    #[test]
    fn links_stay_on_the_machine() {
        for (path, kept) in [
            ("/redfish/v1/Chassis/1U", true),
            ("/redfish/v1/Chassis?$skip=50", true),
            ("//other/redfish", true), // a path, behind the host's name
            ("https://other/redfish", false),
            ("/a\"\nurl = \"https://other", false),
            ("/a b", false),
            ("/a#b", false),
            ("", false),
        ] {
            assert_eq!(is_path(path), kept, "{path}");
        }
        assert!(!is_path(&format!("/{}", "a".repeat(LINK_BYTES))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Whatever the password is, it is one line of curl's, which has the word's own letters.
        #[test]
        fn any_password_is_one_word(password in "[^\\p{Cc}]*") {
            let words = Words {
                url: "https://bmc".to_owned(),
                user: "u".to_owned(),
                password: password.clone(),
                ca: None,
                pin: None,
            };
            let text = words.config(&Fake::new().system(), &[]);
            let line = text.split('\n').find_map(|line| line.strip_prefix("user = \"u:"));
            let mut found = String::new();
            let mut letters = line.unwrap().strip_suffix('"').unwrap().chars();
            while let Some(letter) = letters.next() {
                let letter = if letter == '\\' { letters.next().unwrap() } else { letter };
                found.push(letter);
            }
            prop_assert_eq!(found, password);
        }

        /// Whatever a BMC says, there are as many answers as questions, or none.
        #[test]
        fn any_text_is_split(said in ".*|(\\{\\}\u{1e}200\u{1e}){0,4}", count in 1..4_usize) {
            let paths = vec!["/a".to_owned(); count];
            if let Ok(found) = answers(&said, &paths) {
                prop_assert_eq!(found.len(), count);
                prop_assert_eq!(said.matches(SEPARATOR).count(), 2 * count);
            }
        }
    }
}
