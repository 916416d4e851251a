// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power supplies of a server, as its BMC shows them by Redfish (DMTF's DSP0266): those of each
//! chassis' `PowerSubsystem` or, where there is none, of the older `Power`.

use serde_json::Value;

use crate::fault::Fault;
use crate::health::Found;
use bmc::{Bmc, LINKS_MAX, link, path_in, path_of};

mod bmc;

const ROOT: &str = "/redfish/v1/";
/// Pages of a list.
const PAGES_MAX: usize = 8;

const GOOD_HEALTH: &str = "OK";
/// States of a supply that does what it is there for. Of a state that is not here nobody knows.
const GOOD_STATES: [&str; 3] = ["Enabled", "StandbyOffline", "StandbySpare"];
/// A bay without one.
const ABSENT: &str = "Absent";
const GOOD_INPUT: &str = "Normal";

/// Whom resources come from.
trait Service {
    /// Those of these paths, in their order.
    ///
    /// # Errors
    /// One line, if one of them does not come.
    fn get(&self, paths: &[String]) -> Result<Vec<Value>, Fault>;
}

/// Supplies, and groups of them.
#[derive(Debug, Default)]
struct Supplies {
    there: usize,
    faults: Vec<String>,
}

/// A word of a resource. What is no word is not null, and so not good.
fn word<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    match of.get(name) {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_str().unwrap_or("no word")),
    }
}

fn name(of: &Value) -> &str {
    let names = ["Name", "MemberId", "Id"];
    let mut found = names.iter().filter_map(|name| of.get(name)?.as_str());
    found.next().unwrap_or("a supply")
}

fn elements<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    let found = of.get(name).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

impl Supplies {
    fn add(&mut self, supply: &Value) {
        let status = supply.get("Status").unwrap_or(&Value::Null);
        let (state, health) = (word(status, "State"), word(status, "Health"));
        if state == Some(ABSENT) && health.is_none_or(|health| health == GOOD_HEALTH) {
            return;
        }
        self.there += 1;
        let state = state.filter(|state| !GOOD_STATES.contains(state));
        let health = match health {
            None => Some("no health"),
            health => health.filter(|health| *health != GOOD_HEALTH),
        };
        let input = word(supply, "LineInputStatus").filter(|input| *input != GOOD_INPUT);
        let bad: Vec<&str> = [state, health, input].into_iter().flatten().collect();
        if !bad.is_empty() {
            let fault = format!("{}: {}", name(supply), bad.join(", "));
            self.faults.push(fault);
        }
    }

    /// Supplies for each other. A group without a word of health has none of its own.
    fn add_groups(&mut self, groups: &[Value]) {
        for group in groups {
            let status = group.get("Status").unwrap_or(&Value::Null);
            if let Some(bad) = word(status, "Health").filter(|health| *health != GOOD_HEALTH) {
                self.faults.push(format!("Redundancy: {bad}"));
            }
        }
    }

    fn found(self) -> Found {
        if self.there == 0 && self.faults.is_empty() {
            return Found::Bad("the BMC shows no power supply".to_owned());
        }
        Found::of(true, self.faults.into_iter())
    }
}

/// Members of lists, which may have pages.
fn members(bmc: &impl Service, lists: Vec<String>) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let mut pages = lists;
    for _ in 0..PAGES_MAX {
        let mut next = Vec::new();
        for (page, path) in bmc.get(&pages)?.iter().zip(&pages) {
            let no_list = || Fault::new(format!("no list at {path}"));
            let listed = page.get("Members").and_then(Value::as_array);
            for member in listed.ok_or_else(no_list)? {
                push_new(&mut found, Some(path_of(member).ok_or_else(no_list)?));
            }
            if let Some(more) = page.get("Members@odata.nextLink") {
                next.push(path_in(more).ok_or_else(no_list)?);
            }
        }
        if next.is_empty() || found.len() > LINKS_MAX {
            return Ok(found);
        }
        pages = next;
    }
    Err(Fault::new(format!(
        "a list has more than {PAGES_MAX} pages"
    )))
}

fn push_new(list: &mut Vec<String>, path: Option<String>) {
    list.extend(path.filter(|path| !list.contains(path)));
}

fn ask(bmc: &impl Service) -> Result<Supplies, Fault> {
    let root = bmc.get(&[ROOT.to_owned()])?;
    let chassis = root.first().and_then(|root| link(root, "Chassis"));
    let chassis = chassis.ok_or_else(|| Fault::new("it has no list of chassis"))?;
    let chassis = bmc.get(&members(bmc, vec![chassis])?)?;

    let mut supplies = Supplies::default();
    let (mut subsystems, mut older, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for one in &chassis {
        match link(one, "PowerSubsystem") {
            None => push_new(&mut older, link(one, "Power")),
            path => push_new(&mut subsystems, path),
        }
    }
    for subsystem in bmc.get(&subsystems)? {
        supplies.add_groups(elements(&subsystem, "PowerSupplyRedundancy"));
        push_new(&mut lists, link(&subsystem, "PowerSupplies"));
    }
    for supply in bmc.get(&members(bmc, lists)?)? {
        supplies.add(&supply);
    }
    if supplies.there == 0 {
        // A subsystem that lists none yet, beside the older resource.
        for one in &chassis {
            push_new(&mut older, link(one, "Power"));
        }
    }
    for power in bmc.get(&older)? {
        supplies.add_groups(elements(&power, "Redundancy"));
        for supply in elements(&power, "PowerSupplies") {
            supplies.add(supply);
        }
    }
    Ok(supplies)
}

/// Asks the BMC that a file names. Without the file there is none.
#[must_use]
pub fn look(system: &crate::system::System) -> Found {
    match Bmc::read(system) {
        Ok(None) => Found::None,
        Ok(Some(bmc)) => match ask(&bmc) {
            Ok(supplies) => supplies.found(),
            Err(why) => Found::Bad(format!("cannot be asked: {why}")),
        },
        Err(why) => Found::Bad(format!("{}: {why}", bmc::NAME)),
    }
}

#[cfg(test)]
mod tests;
