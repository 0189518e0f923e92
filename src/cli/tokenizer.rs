//! The tokenizer of a recorded model.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;

use crate::capture::records::Header;
use crate::model::{Model, Tokenizer};

/// The tokenizer of a model, which must be the recorded one as far as the capture says which that was.
///
/// # Errors
/// If the model cannot be loaded, or the capture names another tokenizer.
pub(super) fn recorded_tokenizer(path: &Path, header: &Header) -> anyhow::Result<Arc<Tokenizer>> {
    let Model { tokenizer, identity, .. } = Model::load(path)?;
    let recorded = header.model.as_ref().map(|model| model.tokenizer_hashes.as_slice()).unwrap_or_default();
    let here = identity.tokenizer_hashes();
    let of_one_kind = recorded
        .iter()
        .find_map(|recorded| Some((recorded, here.iter().find(|here| here.algorithm == recorded.algorithm)?)));
    match of_one_kind {
        Some((recorded, here)) if recorded.hex != here.hex => bail!(
            "--model {}: the {} of its tokenizer is {}, and the recorded one's is {}; give the recorded model",
            path.display(),
            here.algorithm,
            here.hex,
            recorded.hex
        ),
        Some(_) => {}
        None => eprintln!("warning: the capture does not say whether its tokenizer is that of {}", path.display()),
    }
    Ok(tokenizer)
}
