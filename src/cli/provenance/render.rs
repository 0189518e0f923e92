//! What `provenance` found, as text and as JSON. Names out of captures are text, with control characters escaped.

use std::io::Write;

use serde_json::{Value, json};

use super::Against;
use crate::capture::records::Header;
use crate::forensics::provenance::{Compared, Part, Patch, Standing, Verdict};
use crate::hash::Labelled;

/// A patch with how it stands to its origin.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) patch: Patch,
    pub(super) standing: Vec<Standing>,
}

/// Everything that is told.
pub(super) struct Report<'a> {
    pub(super) capture: String,
    pub(super) header: &'a Header,
    pub(super) parts: &'a [Part],
    pub(super) against: Option<&'a Against>,
    pub(super) patches: Option<&'a [Checked]>,
}

impl Report<'_> {
    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "capture   {}", self.capture)?;
        writeln!(out, "recorder  {}", shown(&self.recorder()))?;
        writeln!(out, "device    {}", shown(&self.device().unwrap_or_else(|| "not recorded".to_owned())))?;
        for part in self.parts {
            let bytes = part.bytes.map_or(String::new(), |bytes| format!(" ({bytes} bytes)"));
            writeln!(out, "{} {}{bytes}", part.kind, shown(&part.name))?;
            if part.hashes.is_empty() {
                writeln!(out, "  no hash is recorded")?;
            }
            for hash in &part.hashes {
                writeln!(out, "  {:<13}  {}", shown(hash.algorithm()), shown(hash.hex()))?;
            }
        }
        if let Some(against) = self.against {
            text_of_comparison(out, against)?;
        }
        for Checked { patch, standing } in self.patches.into_iter().flatten() {
            writeln!(out)?;
            writeln!(
                out,
                "patch {}, from {} ({})",
                shown(&patch.name),
                shown(&patch.origin),
                shown(patch.reference())
            )?;
            for standing in standing {
                let of = match &patch.file {
                    Some(file) if standing.of.name() != "commit" => {
                        format!("{} of {}", standing.of.name(), shown(file))
                    }
                    _ => standing.of.name().to_owned(),
                };
                let stated = &standing.stated;
                match (standing.is_current(), &standing.now) {
                    (Some(true), _) => writeln!(out, "  current: {of} is {stated}")?,
                    (_, Ok(Some(now))) => writeln!(out, "  moved: {of} was {stated}, and is {now}")?,
                    (_, Ok(None)) => writeln!(out, "  moved: {of} was {stated}, and there is no such thing any more")?,
                    (_, Err(why)) => writeln!(out, "  cannot be compared: {of} was {stated}; {}", shown(why))?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "capture": self.capture,
            "recorder": self.recorder(),
            "device": self.device(),
            "parts": self.parts.iter().map(part_json).collect::<Vec<_>>(),
            "against": self.against.map(|against| json!({
                "what": against.what,
                "compared": against.compared.iter().map(compared_json).collect::<Vec<_>>(),
            })),
            "patches": self.patches.map(|patches| patches.iter().map(patch_json).collect::<Vec<_>>()),
        })
    }

    fn recorder(&self) -> String {
        let recorder = &self.header.recorder;
        let build = recorder.build.as_ref().map_or(String::new(), |build| format!(", built from {build}"));
        format!("{} {}{build}", recorder.name, recorder.version)
    }

    fn device(&self) -> Option<String> {
        let device = self.header.device.as_ref()?;
        let parts = [Some(device.backend.as_str()), device.name.as_deref(), device.isa.as_deref()];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

fn text_of_comparison(out: &mut dyn Write, against: &Against) -> anyhow::Result<()> {
    let count = |name: &str| against.compared.iter().filter(|compared| compared.verdict.name() == name).count();
    writeln!(out)?;
    writeln!(
        out,
        "against {}: {} equal, {} differ, {} cannot be compared",
        shown(&against.what),
        count("equal"),
        count("differs"),
        count("not_comparable")
    )?;
    for Compared { kind, name, with, verdict } in &against.compared {
        let name = shown(name);
        let with = with.as_deref().map_or(String::new(), |with| format!(" with {}", shown(with)));
        match verdict {
            Verdict::Equal { .. } => {}
            Verdict::Differs { algorithm, recorded, found } => {
                let (algorithm, recorded, found) = (shown(algorithm), shown(recorded), shown(found));
                writeln!(out, "  differs: {kind} {name}{with}: {algorithm} {recorded} in the capture, {found} there")?;
            }
            Verdict::NotComparable(why) => {
                writeln!(out, "  cannot be compared: {kind} {name}{with}: {}", shown(why))?;
            }
        }
    }
    Ok(())
}

fn part_json(part: &Part) -> Value {
    let hashes = part.hashes.iter().map(|hash| json!({ "algorithm": hash.algorithm, "hex": hash.hex }));
    json!({ "kind": part.kind.name(), "name": part.name, "bytes": part.bytes, "hashes": hashes.collect::<Vec<_>>() })
}

fn compared_json(compared: &Compared) -> Value {
    let (algorithm, recorded, found, why) = match &compared.verdict {
        Verdict::Equal { algorithm } => (Some(algorithm), None, None, None),
        Verdict::Differs { algorithm, recorded, found } => (Some(algorithm), Some(recorded), Some(found), None),
        Verdict::NotComparable(why) => (None, None, None, Some(why)),
    };
    json!({
        "kind": compared.kind.name(),
        "name": compared.name,
        "with": compared.with,
        "verdict": compared.verdict.name(),
        "algorithm": algorithm,
        "recorded": recorded,
        "found": found,
        "why": why,
    })
}

fn patch_json(Checked { patch, standing }: &Checked) -> Value {
    let checked = standing.iter().map(|standing| {
        json!({
            "of": standing.of.name(),
            "stated": standing.stated,
            "now": standing.now.as_ref().ok(),
            "current": standing.is_current(),
            "why": standing.now.as_ref().err(),
        })
    });
    json!({
        "name": patch.name,
        "origin": patch.origin,
        "reference": patch.reference(),
        "file": patch.file,
        "checked": checked.collect::<Vec<_>>(),
    })
}

/// Text from a file, on one line and of bounded length.
fn shown(text: &str) -> String {
    const LONGEST: usize = 400;
    let escaped = |character: char| match character.is_control() {
        true => character.escape_debug().to_string(),
        false => character.to_string(),
    };
    let mut shown: String = text.chars().take(LONGEST).map(escaped).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}
