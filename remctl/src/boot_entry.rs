// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The boot entry of firmware, by efibootmgr(8).

use std::path::PathBuf;

use crate::esp::{LOADER, Place};
use crate::fault::Fault;
use crate::firmware::variables;
use crate::system::{System, run};

const LABEL: &str = "Remanence";

/// Entries of this machine's firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    program: PathBuf,
}

/// What efibootmgr prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listing {
    order: Vec<String>,
    /// Numbers of those that start our image.
    own: Vec<String>,
}

impl Listing {
    fn parse(text: &str) -> Self {
        let mut listing = Self::default();
        for line in text.lines() {
            if let Some(order) = line.strip_prefix("BootOrder:") {
                let numbers = order.trim().split(',').filter(|number| !number.is_empty());
                listing.order = numbers.map(str::to_owned).collect();
            } else if let Some(number) = own_number(line) {
                listing.own.push(number.to_owned());
            }
        }
        listing
    }
}

/// The number in a line as `Boot0003* Remanence<TAB>HD(1,GPT,…)/File(\EFI\…)`, if it is ours.
fn own_number(line: &str) -> Option<&str> {
    let number = line.strip_prefix("Boot")?.get(..4)?;
    let (label, path) = line.get("Boot0000* ".len()..)?.split_once('\t')?;
    let is_number = number.chars().all(|letter| letter.is_ascii_hexdigit());
    let path = path.to_ascii_lowercase();
    (is_number && label == LABEL && path.contains(&LOADER.to_ascii_lowercase())).then_some(number)
}

impl Entries {
    /// `None` where there are no variables of firmware.
    ///
    /// # Errors
    /// One line, if there are and efibootmgr is not there.
    pub fn open(system: &System) -> Result<Option<Self>, Fault> {
        if variables(system).is_none() {
            return Ok(None);
        }
        let program = system.program("efibootmgr", "efibootmgr")?;
        Ok(Some(Self { program }))
    }

    fn list(&self) -> Result<Listing, Fault> {
        run(&self.program, &["-v"]).map(|text| Listing::parse(&text))
    }

    /// Numbers of those that start our image.
    ///
    /// # Errors
    /// That of efibootmgr.
    pub fn own(&self) -> Result<Vec<String>, Fault> {
        Ok(self.list()?.own)
    }

    /// Whether ours is what firmware tries first.
    ///
    /// # Errors
    /// That of efibootmgr.
    pub fn is_first(&self) -> Result<bool, Fault> {
        let listing = self.list()?;
        Ok(listing
            .order
            .first()
            .is_some_and(|first| listing.own.contains(first)))
    }

    /// Adds one, which firmware does not try yet.
    ///
    /// # Errors
    /// That of efibootmgr.
    pub fn create(&self, place: &Place) -> Result<(), Fault> {
        let part = place.part.to_string();
        let words = [
            "--quiet",
            "--create-only",
            "--disk",
            &place.disk,
            "--part",
            &part,
            "--label",
            LABEL,
            "--loader",
            LOADER,
        ];
        run(&self.program, &words).map(|_| ())
    }

    /// Lets firmware try ours first, and then all others as before.
    ///
    /// # Errors
    /// That of efibootmgr, or one line if it lists none of ours.
    pub fn put_first(&self) -> Result<(), Fault> {
        let listing = self.list()?;
        let none = || Fault::new("efibootmgr: the new entry is not listed");
        let first = listing.own.first().ok_or_else(none)?;
        let others = listing.order.iter().filter(|number| *number != first);
        let order: Vec<&str> = std::iter::once(first)
            .chain(others)
            .map(String::as_str)
            .collect();
        run(&self.program, &["--quiet", "--bootorder", &order.join(",")]).map(|_| ())
    }

    /// Removes one, also from the order.
    ///
    /// # Errors
    /// That of efibootmgr.
    pub fn delete(&self, number: &str) -> Result<(), Fault> {
        let words = ["--quiet", "--bootnum", number, "--delete-bootnum"];
        run(&self.program, &words).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the texts of versions 17 and 18 are read; other loaders' entries are not ours.
    #[test]
    fn listings_are_read() {
        let listing = Listing::parse(concat!(
            "BootCurrent: 0001\nTimeout: 0 seconds\nBootOrder: 0001,0000,001A\n",
            "Boot0000* UiApp\tFvVol(7cb8bdc9)/FvFile(462caa21)\n",
            "Boot0001* debian\tHD(1,GPT,5f,0x800,0x100000)/File(\\EFI\\debian\\shimx64.efi)\n",
            "Boot0002* Remanence\tHD(1,GPT,5f,0x800,0x100000)/File(\\EFI\\debian\\shimx64.efi)\n",
            "Boot0003* Other\tHD(1,GPT,5f,0x800,0x1000)/File(\\EFI\\remanence\\remanence.efi)\n",
            "Boot001A* Remanence\tHD(1,GPT,5f,0x800,0x1000)/File(\\EFI\\remanence\\remanence.efi)\n",
            "Boot001B  Remanence\tHD(1,GPT,5f,0x800,0x1000)/\\EFI\\REMANENCE\\REMANENCE.EFI\n",
            "      dp: 04 01 2a 00\nBoot\nBoot0004* x\nBootNext: 0001\n",
        ));
        assert_eq!(listing.order, ["0001", "0000", "001A"]);
        assert_eq!(listing.own, ["001A", "001B"]);
        assert_eq!(Listing::parse("BootOrder: \n"), Listing::default());
    }
}
