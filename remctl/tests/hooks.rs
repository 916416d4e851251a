// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hooks of packages, with folders of their own and a program that remembers its words.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const INSTALL: &str = include_str!("../dist/zz-remanence");
    const REMOVE: &str = include_str!("../dist/zz-remanence-remove");

    struct Server(tempfile::TempDir);

    impl Server {
        /// With kernels, and a version on the partition.
        fn new(kernels: &[&str], installed: Option<&str>) -> Self {
            let server = Self(tempfile::tempdir().unwrap());
            for folder in ["bin", "boot", "etc/remanence"] {
                fs::create_dir_all(server.path(folder)).unwrap();
            }
            for version in kernels {
                fs::write(server.path(&format!("boot/vmlinuz-{version}")), b"").unwrap();
            }
            if let Some(installed) = installed {
                fs::write(server.path("bin/remctl.installed"), installed).unwrap();
            }
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/remctl");
            symlink(script, server.path("bin/remctl")).unwrap();
            server
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        /// Whether the hook succeeds, and what it makes remctl change.
        fn run(&self, hook: &str, version: &str) -> (bool, String) {
            let at = |folder: &str| self.path(folder).display().to_string();
            let hook = hook.replace("/boot/", &format!("{}/", at("boot")));
            let hook = hook.replace("/etc/remanence", &at("etc/remanence"));
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &hook, "hook", version, "/boot/image"]);
            command.env("PATH", format!("{}:/usr/bin:/bin", at("bin")));
            let done = command.output().unwrap();
            let log = fs::read_to_string(self.path("bin/remctl.log")).unwrap_or_default();
            let changes = log.lines().filter(|line| *line != "installed");
            (
                done.status.success(),
                changes.collect::<Vec<_>>().join("; "),
            )
        }

        fn changes(&self, hook: &str, version: &str) -> String {
            let (is_done, changes) = self.run(hook, version);
            assert!(is_done, "{changes}");
            changes
        }
    }

    const OLD: &str = "6.12.9-remanence";
    const NEW: &str = "6.12.10-remanence";
    const OTHER: &str = "6.12.99-amd64";

    #[test]
    fn a_new_kernel_is_installed_where_there_is_one() {
        let kernels = [OLD, NEW, OTHER];
        let new = format!("install --version {NEW}");
        assert_eq!(Server::new(&kernels, Some(OLD)).changes(INSTALL, NEW), new);
        let chosen = Server::new(&kernels, None);
        assert_eq!(chosen.changes(INSTALL, NEW), "", "nobody has asked for it");
        fs::write(chosen.path("etc/remanence/cmdline"), b"quiet").unwrap();
        assert_eq!(chosen.changes(INSTALL, NEW), new);
    }

    #[test]
    fn other_kernels_change_nothing() {
        let kernels = [OLD, NEW, OTHER];
        for version in [OTHER, "6.12.77-remanence", ""] {
            assert_eq!(
                Server::new(&kernels, Some(NEW)).changes(INSTALL, version),
                ""
            );
        }
        assert_eq!(
            Server::new(&kernels, Some(NEW)).changes(INSTALL, OLD),
            "",
            "an older one"
        );
        let pinned = Server::new(&kernels, Some(OLD));
        assert_eq!(
            pinned.changes(INSTALL, OLD),
            format!("install --version {OLD}")
        );
    }

    #[test]
    fn what_fails_fails_the_package() {
        let server = Server::new(&[NEW], Some(NEW));
        fs::write(server.path("bin/remctl.fails"), b"").unwrap();
        assert!(!server.run(INSTALL, NEW).0);
        fs::remove_file(server.path(&format!("boot/vmlinuz-{NEW}"))).unwrap();
        assert!(!server.run(REMOVE, NEW).0);
    }

    #[test]
    fn without_the_program_nothing_fails() {
        let server = Server::new(&[NEW], Some(NEW));
        fs::remove_file(server.path("bin/remctl")).unwrap();
        for hook in [INSTALL, REMOVE] {
            assert_eq!(server.changes(hook, NEW), "");
        }
    }

    #[test]
    fn a_removed_kernel_is_replaced_or_removed() {
        assert_eq!(
            Server::new(&[OLD, OTHER], Some(NEW)).changes(REMOVE, NEW),
            "install"
        );
        assert_eq!(
            Server::new(&[OTHER], Some(NEW)).changes(REMOVE, NEW),
            "remove"
        );
        assert_eq!(Server::new(&[NEW], Some(NEW)).changes(REMOVE, OLD), "");
        assert_eq!(Server::new(&[OLD], None).changes(REMOVE, NEW), "");
        assert_eq!(
            Server::new(&[NEW], Some(NEW)).changes(REMOVE, NEW),
            "",
            "it is still there"
        );
    }
}
