// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine for the checker (crate `stateright`), and what the checker finds.

use std::collections::BTreeMap;

use serde::Serialize;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::config::Config;
use crate::machine::{Action, Place, State};
use crate::promises::{Broken, KINDS};
use crate::steps::Op;

/// More steps than any boot takes.
const STEPS_MAX: usize = 200;

/// A machine as a model.
#[derive(Debug, Clone)]
pub struct Checked(pub Config);

impl Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.actions(&self.0));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        Some(last.after(&self.0, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all: [fn(&Self, &State) -> bool; KINDS] = [
            holds::<0>,
            holds::<1>,
            holds::<2>,
            holds::<3>,
            holds::<4>,
            holds::<5>,
            holds::<6>,
            holds::<7>,
            holds::<8>,
            holds::<9>,
            holds::<10>,
            holds::<11>,
            holds::<12>,
            holds::<13>,
            holds::<14>,
            holds::<15>,
            holds::<16>,
            holds::<17>,
        ];
        let named = Broken::ALL.into_iter().zip(all);
        named
            .map(|(broken, condition)| Property::always(broken.name(), condition))
            .collect()
    }
}

fn holds<const KIND: usize>(model: &Checked, state: &State) -> bool {
    match Broken::ALL[KIND] {
        Broken::Stuck => state.broken.is_some() || comes_back(&model.0, state),
        broken => state.broken != Some(broken),
    }
}

/// Whether the machine gets to programs from here if there is power and nothing more goes wrong.
/// Looked at where the machine is off, or waits after a Stop and has power.
fn comes_back(config: &Config, state: &State) -> bool {
    let waits = matches!(state.ops.first(), Some(Op::Wait(..))) && state.power && !state.planned;
    if state.place != Place::Off && !waits {
        return true;
    }
    let config = Config {
        boots: u8::MAX,
        ..config.clone()
    };
    let mut now = state.clone();
    for _ in 0..STEPS_MAX {
        let next = match now.place {
            Place::Running => return true,
            // It says that memory does not hold what is stored.
            Place::Dead => return state.ghost.disturbed,
            Place::Off => Action::PowerOn(false),
            Place::Held => Action::Answer,
            _ => match undisturbed(&config, &now) {
                Some(action) => action,
                None => return false,
            },
        };
        now = now.after(&config, &next);
        if now.broken.is_some() {
            // Found as what it is where the checker comes to it.
            return true;
        }
    }
    false
}

fn undisturbed(config: &Config, state: &State) -> Option<Action> {
    let actions = state.actions(config);
    let wanted = |action: &&Action| {
        matches!(
            action,
            Action::Step | Action::Reset(_) | Action::Charge | Action::Return
        )
    };
    actions.iter().find(wanted).cloned()
}

/// What the checker has found of one machine.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: String,
    /// Its states.
    pub states: usize,
    /// Steps of the longest of the shortest ways to a state.
    pub depth: usize,
    /// Broken promises, each with the steps that lead to it.
    pub broken: BTreeMap<&'static str, Vec<String>>,
}

/// Looks at every state of a model, or until one of `wanted` is broken; if there are none, until
/// anything is.
#[must_use]
pub fn check<M>(model: M, machine: &str, wanted: &[&'static str], threads: usize) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let until = if wanted.is_empty() {
        HasDiscoveries::AnyFailures
    } else {
        HasDiscoveries::AnyOf(wanted.iter().copied().collect())
    };
    let checker = model
        .checker()
        .threads(threads)
        .finish_when(until)
        .spawn_bfs()
        .join();
    let broken = checker.discoveries().into_iter().map(|(name, path)| {
        let steps = path.into_actions();
        (name, steps.iter().map(|step| format!("{step:?}")).collect())
    });
    Report {
        machine: machine.to_owned(),
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken: broken.collect(),
    }
}
