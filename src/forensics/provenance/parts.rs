//! The parts that a capture's header names by hashes.

use std::fmt;

use crate::capture::records::{Header, LabelledHash};

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A kernel's source or binary, or a set of kernels.
    Kernel,
    /// The weights' file or files.
    Model,
    /// The tokenizer as it was used, which is no file.
    Tokenizer,
    /// The text of the chat template, which is part of another file.
    ChatTemplate,
}

impl PartKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Model => "model",
            Self::Tokenizer => "tokenizer",
            Self::ChatTemplate => "chat template",
        }
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Something that made a capture, and its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Its name in the capture: of a kernel's source a path, of a model a name for people.
    pub name: String,
    /// Length in bytes of a model's files, if it is recorded.
    pub bytes: Option<u64>,
    /// Its hashes; empty if none are recorded.
    pub hashes: Vec<LabelledHash>,
}

impl Part {
    /// Whether it is a file by itself. The tokenizer and the template are part of the model's files, and a set of kernels, whose
    /// name has no extension, is part of a program.
    pub fn is_file(&self) -> bool {
        match self.kind {
            PartKind::Kernel => self.name.rsplit('/').next().is_some_and(|name| name.contains('.')),
            PartKind::Model => true,
            PartKind::Tokenizer | PartKind::ChatTemplate => false,
        }
    }
}

/// Every part that `header` names, kernels first.
pub fn parts(header: &Header) -> Vec<Part> {
    let kernels = header.device.iter().flat_map(|device| &device.kernels).map(|kernel| Part {
        kind: PartKind::Kernel,
        name: kernel.name.clone(),
        bytes: None,
        hashes: kernel.hashes.clone(),
    });
    let model = header.model.iter().flat_map(|model| {
        let part = |kind, bytes, hashes: &Vec<LabelledHash>| Part {
            kind,
            name: model.name.clone(),
            bytes,
            hashes: hashes.clone(),
        };
        let with_hashes = [
            part(PartKind::Tokenizer, None, &model.tokenizer_hashes),
            part(PartKind::ChatTemplate, None, &model.chat_template_hashes),
        ];
        let with_hashes = with_hashes.into_iter().filter(|part| !part.hashes.is_empty());
        std::iter::once(part(PartKind::Model, model.file_bytes, &model.hashes)).chain(with_hashes)
    });
    kernels.chain(model).collect()
}
