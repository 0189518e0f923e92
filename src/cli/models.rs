//! The models that commands run again in plain, found and checked, and how their products are computed.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use crate::arith::{Isa, KvType};
use crate::capture::records::{Header, ModelIdentity};
use crate::hash::Hash;
use crate::model::{Model, Tokenizer};
use crate::replay::forward::{PlainModel, Products};
use crate::replay::{Preflight, recorded_kv_type};

/// The models of a capture, as options.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ModelOptions {
    /// The model that was recorded. Without it, the cache folder is searched for one of its name or length.
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<PathBuf>,
    /// The draft model that was recorded, for a capture of the drafter `model`.
    #[arg(long, value_name = "MODEL")]
    pub(super) draft_model: Option<PathBuf>,
}

/// How matrix products are computed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum IsaChoice {
    Auto,
    Scalar,
    Avx2,
    Avx512,
}

impl IsaChoice {
    pub(super) fn isa(self) -> Isa {
        match self {
            Self::Auto => Isa::detect(),
            Self::Scalar => Isa::Scalar,
            Self::Avx2 => Isa::Avx2,
            Self::Avx512 => Isa::Avx512,
        }
    }
}

/// A bar on a terminal, nothing elsewhere.
pub(super) fn progress_bar(name: &str, requests: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} requests, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(requests as u64).with_style(style).with_message(name.to_owned())
}

/// Models that were loaded for the captures so far.
pub(super) struct Models<'a> {
    given: Option<&'a Path>,
    isa: Isa,
    loaded: Vec<Loaded>,
}

/// A model, loaded.
pub(super) struct Loaded {
    path: PathBuf,
    model: Model,
    isa: Isa,
}

/// The model of a capture.
pub(super) enum Found<'a> {
    Model(&'a Loaded),
    /// There is none; why, in words.
    None(String),
}

impl<'a> Models<'a> {
    /// None yet; the one at `given` is every capture's, if there is one.
    pub(super) fn new(given: Option<&'a Path>, isa: Isa) -> Self {
        Self { given, isa, loaded: Vec::new() }
    }

    /// The model for a capture: the one that was given, or one of the recorded name in the cache folder. A path in the
    /// capture itself is never followed.
    pub(super) fn of(&mut self, header: &Header) -> anyhow::Result<Found<'_>> {
        let path = match (self.given, &header.model) {
            (Some(path), _) => path.to_owned(),
            (None, None) => {
                return Ok(Found::None("the capture names no model; give it with --model".to_owned()));
            }
            (None, Some(recorded)) => match in_cache(recorded) {
                Some(path) => path,
                None => {
                    let folder = cache_folder().map_or("a cache folder".into(), |folder| folder.display().to_string());
                    let why = format!("no model: give `{}` with --model, or put it into {folder}", recorded.name);
                    return Ok(Found::None(why));
                }
            },
        };
        Ok(Found::Model(self.at(&path)?))
    }

    /// The model at a path, which is loaded once.
    pub(super) fn at(&mut self, path: &Path) -> anyhow::Result<&Loaded> {
        let index = match self.loaded.iter().position(|loaded| loaded.path == path) {
            Some(index) => index,
            None => {
                self.loaded.push(Loaded::load(path, self.isa)?);
                self.loaded.len() - 1
            }
        };
        Ok(&self.loaded[index])
    }

    /// The models that were loaded.
    pub(super) fn into_loaded(self) -> Vec<Loaded> {
        self.loaded
    }
}

impl Loaded {
    /// Reads the model at `path`.
    pub(super) fn load(path: &Path, isa: Isa) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), model: Model::load(path)?, isa })
    }

    /// Where it was read from.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses it where a capture was recorded with another one.
    pub(super) fn check(&self, capture: &str, header: &Header) -> anyhow::Result<()> {
        Preflight::new(capture, header, Some(&self.model), "")?;
        Ok(())
    }

    /// Its tokenizer.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.model.tokenizer
    }

    /// The draft model of a capture, which must be the one that was recorded.
    pub(super) fn draft_of(&self, header: &Header) -> anyhow::Result<PlainModel<'_>> {
        let named = |name: String| header.configuration.iter().find(|setting| setting.name == name);
        let hashes = self.model.identity.file_hashes();
        let recorded = |hash: &'_ Hash| named(format!("draft-model.{}", hash.algorithm));
        let Some((hash, setting)) = hashes.iter().find_map(|hash| Some((hash, recorded(hash)?))) else {
            anyhow::bail!("--draft-model: the capture was recorded without a draft model");
        };
        if setting.value.trim_matches('"') != hash.hex {
            anyhow::bail!(
                "--draft-model {}: its {} is {}, and the recorded draft model's is {}",
                self.path.display(),
                hash.algorithm,
                hash.hex,
                setting.value
            );
        }
        self.plain(header)
    }

    /// The model, to be run as it was recorded.
    pub(super) fn plain(&self, header: &Header) -> anyhow::Result<PlainModel<'_>> {
        let products = Products::new(self.isa, &self.model.weights)?;
        // Where it is not known how keys and values were stored, the pre-flight keeps the forward pass from being run.
        let kv_type = recorded_kv_type(header).unwrap_or(KvType::F32);
        Ok(PlainModel::new(&self.model, products, kv_type)?)
    }
}

/// Where `make tour` and people put models.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("STEPSCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("stepscope")))
        .or_else(|| Some(set("HOME")?.join(".cache").join("stepscope")))
}

/// What the cache folder directly holds of that name, with or without `.gguf`; or else a file of the recorded length,
/// which the pre-flight then compares by hash.
fn in_cache(recorded: &ModelIdentity) -> Option<PathBuf> {
    let folder = cache_folder()?;
    let names = [recorded.name.clone(), format!("{}.gguf", recorded.name)];
    let is_plain = |name: &String| Path::new(name).file_name().is_some_and(|file| file == name.as_str());
    let by_name = names.into_iter().filter(is_plain).map(|name| folder.join(name)).find(|path| path.exists());
    let has_length = |path: &PathBuf| path.metadata().is_ok_and(|file| Some(file.len()) == recorded.file_bytes);
    by_name.or_else(|| {
        let mut files: Vec<PathBuf> = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        files.into_iter().find(has_length)
    })
}
