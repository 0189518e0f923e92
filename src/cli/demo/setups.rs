//! The settings of the runs: what the investigators had, and what tells apart the two settings that differ.

use std::path::Path;

use crate::incident;

/// One way of running the requests.
#[derive(Debug)]
pub(super) struct Setup {
    /// What its files are called.
    pub(super) name: &'static str,
    /// In words.
    pub(super) what: &'static str,
    pub(super) drafts: u32,
    pub(super) scheduling: &'static str,
    pub(super) has_fault: bool,
    /// Whether a query can be shorter than what the step before accepted, so that the fault has something to act on.
    pub(super) shrinks: bool,
}

/// The clean run comes first: what it calls is what the others should.
pub(super) const SETUPS: [Setup; 5] = [
    Setup {
        name: "clean",
        what: "the reporter's configuration, without the fault",
        drafts: 15,
        scheduling: "sync",
        has_fault: false,
        shrinks: true,
    },
    Setup {
        name: "faulty",
        what: "the reporter's configuration, with the fault",
        drafts: 15,
        scheduling: "sync",
        has_fault: true,
        shrinks: true,
    },
    Setup {
        name: "defaults",
        what: "the launcher's defaults, with the fault",
        drafts: 7,
        scheduling: "async",
        has_fault: true,
        shrinks: false,
    },
    Setup {
        name: "async15",
        what: "control: as many drafts as the reporter had, scheduled as by default, with the fault",
        drafts: 15,
        scheduling: "async",
        has_fault: true,
        shrinks: false,
    },
    Setup {
        name: "sync7",
        what: "control: as many drafts as by default, scheduled as the reporter had it, with the fault",
        drafts: 7,
        scheduling: "sync",
        has_fault: true,
        shrinks: true,
    },
];

impl Setup {
    /// The name of the run under the reporter's configuration, with the fault.
    pub(super) const FAULTY: &'static str = "faulty";

    /// The settings as a `--config` file of `record`, with the draft model at that path.
    pub(super) fn config(&self, draft_model: &Path) -> String {
        let mut table = toml::Table::new();
        let mut set = |key: &str, value: toml::Value| table.insert(key.to_owned(), value);
        set("tool-format", "tagged".into());
        set("drafter", "model".into());
        set("draft-model", draft_model.display().to_string().into());
        set("drafts", self.drafts.into());
        set("scheduling", self.scheduling.into());
        set("sketches", "on".into());
        if self.has_fault {
            set("inject", incident::FAULT.name().into());
        }
        format!("# {}\n{table}", self.what)
    }
}
