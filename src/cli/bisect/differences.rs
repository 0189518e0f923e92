//! The settings in which two configurations differ, and the configurations between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::record::read_config;

/// Keys that say where things are and how results are told, and nothing about what is decoded.
const PLACES: [&str; 4] = ["requests", "out", "outputs", "json"];
/// The table whose entries are settings by themselves.
const SAMPLING: &str = "sampling";

/// Settings by name; an entry of a table is `table.entry`.
type Settings = BTreeMap<String, toml::Value>;

/// Two configurations.
pub(in crate::cli) struct Configurations {
    good: Settings,
    /// What differs, by name.
    pub(in crate::cli) differences: Vec<Difference>,
    /// Keys of either that are no settings here.
    pub(in crate::cli) not_read: Vec<String>,
}

/// A setting that is not the same in both.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Difference {
    /// Its name.
    pub(in crate::cli) setting: String,
    /// What it is in the good configuration; `None` if it is not there.
    pub(in crate::cli) good: Option<toml::Value>,
    /// What it is in the bad one.
    pub(in crate::cli) bad: Option<toml::Value>,
}

impl Difference {
    /// `setting`, `good` and `bad`, null where it is not there.
    pub(in crate::cli) fn json(&self) -> Value {
        json!({"setting": self.setting, "good": self.good, "bad": self.bad})
    }
}

impl Configurations {
    /// Reads two --config files. `has_model`: both run with a model that they do not name.
    ///
    /// # Errors
    /// If one is none; the error names the line and the key.
    pub(in crate::cli) fn read(good: &Path, bad: &Path, has_model: bool) -> anyhow::Result<Self> {
        let mut not_read = BTreeSet::new();
        let mut settings = |flag: &'static str, path: &Path| -> anyhow::Result<Settings> {
            read_config(path).context(flag)?;
            let text = std::fs::read_to_string(path).with_context(|| format!("{flag} {}", path.display()))?;
            let mut settings = flat(text.parse().with_context(|| format!("{flag} {}", path.display()))?);
            for key in PLACES.into_iter().chain(has_model.then_some("model")) {
                if settings.remove(key).is_some() {
                    not_read.insert(key.to_owned());
                }
            }
            Ok(settings)
        };
        let (good, bad) = (settings("--good", good)?, settings("--bad", bad)?);
        let names: BTreeSet<&String> = good.keys().chain(bad.keys()).collect();
        let differences = names.into_iter().filter(|name| good.get(*name) != bad.get(*name)).map(|name| Difference {
            setting: name.clone(),
            good: good.get(name).cloned(),
            bad: bad.get(name).cloned(),
        });
        let differences = differences.collect();
        Ok(Self { good, differences, not_read: not_read.into_iter().collect() })
    }

    /// The good configuration with these differences, by number, as they are in the bad one.
    pub(in crate::cli) fn with(&self, subset: &[usize]) -> toml::Table {
        let mut settings = self.good.clone();
        for difference in subset.iter().filter_map(|number| self.differences.get(*number)) {
            match &difference.bad {
                Some(value) => settings.insert(difference.setting.clone(), value.clone()),
                None => settings.remove(&difference.setting),
            };
        }
        nested(settings)
    }
}

fn flat(table: toml::Table) -> Settings {
    let mut settings = Settings::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(entries) if key == SAMPLING => {
                settings.extend(entries.into_iter().map(|(entry, value)| (format!("{SAMPLING}.{entry}"), value)));
            }
            value => drop(settings.insert(key, value)),
        }
    }
    settings
}

fn nested(settings: Settings) -> toml::Table {
    let (mut table, mut sampling) = (toml::Table::new(), toml::Table::new());
    for (name, value) in settings {
        match name.split_once('.') {
            Some((SAMPLING, entry)) => sampling.insert(entry.to_owned(), value),
            _ => table.insert(name, value),
        };
    }
    if !sampling.is_empty() {
        table.insert(SAMPLING.to_owned(), sampling.into());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn configurations(good: &str, bad: &str, has_model: bool) -> anyhow::Result<Configurations> {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.toml", "b.toml"].map(|name| folder.path().join(name));
        fs::write(&a, good).unwrap();
        fs::write(&b, bad).unwrap();
        Configurations::read(&a, &b, has_model)
    }

    #[test]
    fn settings_differ_one_by_one() {
        let good = "model = 'm'\nout = 'a'\ndrafts = 7\nthreads = 2\n[sampling]\ntemperature = 0.5\ntop_k = 3";
        let bad = "model = 'n'\nout = 'b'\ndrafts = 15\nthreads = 2\nkv-type = 'f16'\n[sampling]\ntemperature = 0.7";
        let read = configurations(good, bad, false).unwrap();
        let names: Vec<&str> = read.differences.iter().map(|difference| difference.setting.as_str()).collect();
        assert_eq!(names, ["drafts", "kv-type", "model", "sampling.temperature", "sampling.top_k"]);
        assert_eq!(read.not_read, ["out"]);
        assert_eq!(read.differences[1].json(), json!({"setting": "kv-type", "good": null, "bad": "f16"}));
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        let kept = "model = 'm'\ndrafts = 7\nthreads = 2\n";
        assert_eq!(read.with(&[]), table(&format!("{kept}[sampling]\ntemperature = 0.5\ntop_k = 3")));
        assert_eq!(read.with(&[1, 4]), table(&format!("{kept}kv-type = 'f16'\n[sampling]\ntemperature = 0.5")));
        let all = "model = 'n'\ndrafts = 15\nthreads = 2\nkv-type = 'f16'\n[sampling]\ntemperature = 0.7";
        assert_eq!(read.with(&[0, 1, 2, 3, 4]), table(all));
        // Of a table, nothing stays that could still be read.
        assert_eq!(configurations("[sampling]\ntop_k = 3", "", false).unwrap().with(&[0]), toml::Table::new());
    }

    #[test]
    fn a_model_that_is_given_is_no_difference() {
        let read = configurations("model = 'm'", "model = 'n'", true).unwrap();
        assert!(read.differences.is_empty());
        assert_eq!(read.not_read, ["model"]);
    }

    #[test]
    fn what_is_no_setting_is_named_with_its_file() {
        let Err(error) = configurations("", "threads = 2\nquiet = true", false) else { panic!("quiet is no setting") };
        let told = format!("{error:#}");
        for part in ["--bad", "b.toml", "line 2", "`quiet` is not a setting"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
