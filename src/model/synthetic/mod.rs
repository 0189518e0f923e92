//! Small random models for tests and benchmarks, written as GGUF files or Hugging Face folders.
//!
//! A model is a function of its description, seed included: the same description gives the same bytes, and the two
//! containers hold the same model (the folder with every weight widened to f32).

mod blocks;
mod gguf;
mod hugging_face;
mod vocabulary;

use std::io;
use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::arith::{MatrixView, WeightFormat, scalar};
use crate::model::tensor_names::TensorNames;
use crate::model::{Architecture, LayerKind};

pub use vocabulary::{BEGIN_OF_SEQUENCE, CHAT_TEMPLATE, END_OF_SEQUENCE, VOCABULARY_SIZE};

/// A small random model.
#[derive(Clone, Debug)]
pub struct SyntheticModel {
    /// Which forward pass it has.
    pub architecture: Architecture,
    /// Decides every weight.
    pub seed: u64,
    /// Format of the matrices in the layers.
    pub matrices: WeightFormat,
    /// Format of the embedding.
    pub embedding: WeightFormat,
    /// Format of the head; `None` ties it to the embedding.
    pub head: Option<WeightFormat>,
    /// Elements of the residual stream.
    pub hidden_size: usize,
    /// Elements between the feed-forward matrices.
    pub feed_forward_size: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// The operators, from the embedding up.
    pub layers: Vec<LayerKind>,
    /// Longest sequence, in tokens.
    pub context_length: usize,
    /// Taps of the short convolutions.
    pub convolution_width: usize,
    /// Whether the rotary embedding has Llama 3's frequency factors.
    pub frequency_factors: bool,
    /// The chat template; `None` leaves it out.
    pub chat_template: Option<String>,
    /// Sampling defaults under the names of `generation_config.json` (`temperature`, `top_p`, `top_k`, `min_p`,
    /// `repetition_penalty`); empty leaves them out.
    pub generation_config: Map<String, Json>,
}

impl SyntheticModel {
    /// A `llama` model with F32 weights, three layers, a tied head and a chat template.
    pub fn llama(seed: u64) -> Self {
        Self {
            architecture: Architecture::Llama,
            seed,
            matrices: WeightFormat::F32,
            embedding: WeightFormat::F32,
            head: None,
            hidden_size: 64,
            feed_forward_size: 128,
            heads: 4,
            kv_heads: 2,
            head_size: 16,
            layers: vec![LayerKind::Attention; 3],
            context_length: 512,
            convolution_width: 3,
            frequency_factors: false,
            chat_template: Some(CHAT_TEMPLATE.to_owned()),
            generation_config: Map::new(),
        }
    }

    /// An `lfm2` model, likewise, with two convolutions and two attention layers.
    pub fn lfm2(seed: u64) -> Self {
        let layers = [LayerKind::ShortConvolution, LayerKind::Attention];
        Self { architecture: Architecture::Lfm2, layers: layers.repeat(2), ..Self::llama(seed) }
    }

    /// The same description with every matrix in `format`; sizes grow where its blocks demand it.
    pub fn with_format(mut self, format: WeightFormat) -> Self {
        let block = format.block_elements();
        (self.matrices, self.embedding) = (format, format);
        self.head = self.head.map(|_| format);
        self.hidden_size = self.hidden_size.next_multiple_of(block);
        self.feed_forward_size = self.feed_forward_size.next_multiple_of(block);
        self.head_size = self.hidden_size / self.heads;
        self
    }

    /// Writes the model as a GGUF file.
    ///
    /// # Errors
    /// If it cannot be written, or the sizes do not fit the formats.
    pub fn write_gguf(&self, path: &Path) -> io::Result<()> {
        gguf::write(self, path)
    }

    /// Writes the model as a folder that `transformers` loads.
    ///
    /// # Errors
    /// If it cannot be written, or the sizes do not fit the formats.
    pub fn write_hugging_face(&self, folder: &Path) -> io::Result<()> {
        hugging_face::write(self, folder)
    }

    /// All tensors, in file order, with the rows of queries and keys as GGUF has them.
    fn tensors(&self) -> io::Result<Vec<RandomTensor>> {
        let (gguf, hugging_face) = (TensorNames::gguf(self.architecture), TensorNames::hugging_face(self.architecture));
        let mut tensors = Tensors { model: self, tensors: Vec::new() };
        let hidden = self.hidden_size;
        // A tied head makes logits of this spread from the normed hidden state.
        let logit_spread = 2.5 / (hidden as f32).sqrt();
        let names = (gguf.embedding.to_owned(), hugging_face.embedding.to_owned());
        tensors.matrix(names, self.embedding, [VOCABULARY_SIZE, hidden], logit_spread, None)?;
        for (index, kind) in self.layers.iter().enumerate() {
            let name = |of: fn(&TensorNames) -> &'static str| {
                let full = |names: &TensorNames| format!("{}{index}.{}", names.layer_prefix, of(names));
                (full(&gguf), full(&hugging_face))
            };
            tensors.layer(*kind, name)?;
        }
        tensors.norm((gguf.output_norm.to_owned(), hugging_face.output_norm.to_owned()), hidden);
        if let Some(format) = self.head {
            let names = (gguf.head.to_owned(), hugging_face.head.to_owned());
            tensors.matrix(names, format, [VOCABULARY_SIZE, hidden], logit_spread, None)?;
        }
        Ok(tensors.tensors)
    }
}

/// The models whose logits `tests/fixtures/reference/NAME.f32` records, by name.
pub fn reference_models() -> [(&'static str, SyntheticModel); 3] {
    let scaled = SyntheticModel { frequency_factors: true, head: Some(WeightFormat::F32), ..SyntheticModel::llama(12) };
    [("llama", SyntheticModel::llama(11)), ("llama-scaled", scaled), ("lfm2", SyntheticModel::lfm2(13))]
}

/// A tensor with its names in GGUF and Hugging Face.
struct RandomTensor {
    names: (String, String),
    format: WeightFormat,
    /// Slowest-varying first.
    shape: Vec<usize>,
    bytes: Vec<u8>,
    /// Heads whose rows are permuted in GGUF.
    permuted_heads: Option<usize>,
}

impl RandomTensor {
    /// The values, exactly as the format stands for them.
    fn values(&self) -> io::Result<Vec<f32>> {
        let columns = self.shape.last().copied().unwrap_or(1);
        let rows = self.shape.iter().product::<usize>() / columns;
        let view = MatrixView::new(self.format, rows, columns, &self.bytes).map_err(io::Error::other)?;
        let mut values = vec![0.0; rows * columns];
        for (row, out) in values.chunks_exact_mut(columns).enumerate() {
            scalar::dequantize_row(&view, row, out);
        }
        Ok(values)
    }
}

/// Collects tensors; each draws its random numbers under a number of its own.
struct Tensors<'a> {
    model: &'a SyntheticModel,
    tensors: Vec<RandomTensor>,
}

impl Tensors<'_> {
    fn random(&self) -> blocks::Random {
        blocks::Random::new(self.model.seed, self.tensors.len() as u32)
    }

    fn matrix(
        &mut self,
        names: (String, String),
        format: WeightFormat,
        [rows, columns]: [usize; 2],
        deviation: f32,
        permuted_heads: Option<usize>,
    ) -> io::Result<()> {
        let bytes = blocks::matrix(&mut self.random(), format, rows, columns, deviation)?;
        self.tensors.push(RandomTensor { names, format, shape: vec![rows, columns], bytes, permuted_heads });
        Ok(())
    }

    fn norm(&mut self, names: (String, String), length: usize) {
        let mut random = self.random();
        let weights = (0..length).flat_map(|_| (1.0 + 0.2 * random.normal()).to_le_bytes()).collect();
        let format = WeightFormat::F32;
        self.tensors.push(RandomTensor { names, format, shape: vec![length], bytes: weights, permuted_heads: None });
    }

    fn convolution(&mut self, names: (String, String)) {
        let mut random = self.random();
        let (channels, width) = (self.model.hidden_size, self.model.convolution_width);
        let taps = (0..channels * width).flat_map(|_| (0.6 * random.normal()).to_le_bytes()).collect();
        let (format, shape) = (WeightFormat::F32, vec![channels, width]);
        self.tensors.push(RandomTensor { names, format, shape, bytes: taps, permuted_heads: None });
    }

    fn layer(
        &mut self,
        kind: LayerKind,
        name: impl Fn(fn(&TensorNames) -> &'static str) -> (String, String),
    ) -> io::Result<()> {
        let SyntheticModel { hidden_size: hidden, feed_forward_size, heads, kv_heads, head_size, .. } = *self.model;
        let (queries, keys) = (heads * head_size, kv_heads * head_size);
        let format = self.model.matrices;
        let unit = |columns: usize| 1.0 / (columns as f32).sqrt();
        let permuted = |heads: usize| (self.model.architecture == Architecture::Llama).then_some(heads);
        let (permuted_queries, permuted_keys) = (permuted(heads), permuted(kv_heads));

        self.norm(name(|names| names.operator_norm), hidden);
        match kind {
            LayerKind::Attention => {
                // Sharper than 1, so that attention distinguishes positions.
                let sharp = 1.5 * unit(hidden);
                self.matrix(name(|names| names.query), format, [queries, hidden], sharp, permuted_queries)?;
                self.matrix(name(|names| names.key), format, [keys, hidden], sharp, permuted_keys)?;
                self.matrix(name(|names| names.value), format, [keys, hidden], unit(hidden), None)?;
                self.matrix(name(|names| names.output), format, [hidden, queries], unit(queries), None)?;
                if self.model.architecture == Architecture::Lfm2 {
                    self.norm(name(|names| names.query_and_key_norm.map_or("", |(query, _)| query)), head_size);
                    self.norm(name(|names| names.query_and_key_norm.map_or("", |(_, key)| key)), head_size);
                }
            }
            LayerKind::ShortConvolution => {
                self.matrix(name(|names| names.in_projection), format, [3 * hidden, hidden], unit(hidden), None)?;
                self.convolution(name(|names| names.convolution));
                self.matrix(name(|names| names.out_projection), format, [hidden, hidden], unit(hidden), None)?;
            }
        }
        self.norm(name(|names| names.feed_forward_norm), hidden);
        self.matrix(name(|names| names.gate), format, [feed_forward_size, hidden], unit(hidden), None)?;
        self.matrix(name(|names| names.up), format, [feed_forward_size, hidden], unit(hidden), None)?;
        self.matrix(name(|names| names.down), format, [hidden, feed_forward_size], unit(feed_forward_size), None)
    }
}

#[cfg(test)]
mod tests;
