// SPDX-License-Identifier: Apache-2.0 OR MIT
use remanence_protocol::model::{check, machines};
fn main() {
    let boots: u8 = std::env::args().nth(1).and_then(|w| w.parse().ok()).unwrap_or(2);
    let only = std::env::args().nth(2);
    if only.as_deref() == Some("mutants") {
        for m in remanence_protocol::mutants::MUTANTS {
            let mut config = machines(boots).into_iter().find(|c| c.name == m.machine).unwrap();
            config.change = Some(m.change);
            let start = std::time::Instant::now();
            let report = check(&config, &[m.breaks.name()], 1);
            let names: Vec<_> = report.broken.keys().collect();
            println!("{} {} want {} got {:?} states {} {:?}", if names.contains(&&m.breaks.name()) {"ok"} else {"MISSED"}, m.name, m.breaks.name(), names, report.states, start.elapsed());
        }
        return;
    }
    for config in machines(boots) {
        if only.as_deref().is_some_and(|n| n != config.name) { continue; }
        let start = std::time::Instant::now();
        let report = check(&config, &[], 1);
        println!("{} states {} depth {} in {:?}", report.machine, report.states, report.depth, start.elapsed());
        for (name, steps) in &report.broken {
            println!("  BROKEN {name}:");
            for step in steps { println!("    {step}"); }
        }
    }
}
