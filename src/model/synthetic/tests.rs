use serde_json::json;

use super::*;
use crate::model::{Model, OperatorWeights, Tensor};

fn models() -> Vec<SyntheticModel> {
    let mut models = Vec::new();
    for format in WeightFormat::ALL {
        models.push(SyntheticModel::llama(7).with_format(format));
        models.push(SyntheticModel::lfm2(8).with_format(format));
    }
    models.push(SyntheticModel { head: Some(WeightFormat::Q8_0), ..SyntheticModel::llama(9) });
    models.push(SyntheticModel { frequency_factors: true, ..SyntheticModel::llama(10) });
    models
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.rows() * tensor.columns()];
    for (row, out) in values.chunks_exact_mut(tensor.columns()).enumerate() {
        scalar::dequantize_row(&tensor.view(), row, out);
    }
    values
}

/// Rows of halves in the order of GGUF's interleaved pairs.
fn interleaved(values: Vec<f32>, columns: usize, head_size: usize) -> Vec<f32> {
    let rows = (0..values.len() / columns).map(|row| {
        let (head, within) = (row / head_size, row % head_size);
        head * head_size + within % 2 * (head_size / 2) + within / 2
    });
    rows.flat_map(|row| values[row * columns..][..columns].to_vec()).collect()
}

#[test]
fn both_containers_hold_the_same_model() {
    for synthetic in models() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.gguf");
        synthetic.write_gguf(&path).expect("written");
        synthetic.write_hugging_face(&folder.path().join("hf")).expect("written");
        let gguf = Model::load(&path).expect("a valid file");
        let hugging_face = Model::load(&folder.path().join("hf")).expect("a valid folder");

        let mut config = hugging_face.config.clone();
        config.rope.layout = gguf.config.rope.layout;
        assert_eq!(config, gguf.config, "{synthetic:?}");
        assert_eq!(gguf.config.rope.frequency_factors.is_some(), synthetic.frequency_factors);
        assert_eq!(gguf.weights.embedding.format(), synthetic.embedding);
        assert_eq!(gguf.weights.head.format(), synthetic.head.unwrap_or(synthetic.embedding));
        assert_eq!(values(&gguf.weights.head), values(&hugging_face.weights.head));
        assert_eq!(gguf.weights.output_norm, hugging_face.weights.output_norm);

        let permuted = synthetic.architecture == Architecture::Llama;
        for (one, other) in gguf.weights.layers.iter().zip(&hugging_face.weights.layers) {
            assert_eq!(one.operator_norm, other.operator_norm);
            assert_eq!(one.feed_forward_norm, other.feed_forward_norm);
            assert_eq!(values(&one.gate), values(&other.gate));
            assert_eq!(values(&one.up), values(&other.up));
            assert_eq!(values(&one.down), values(&other.down));
            match (&one.operator, &other.operator) {
                (OperatorWeights::Attention(one), OperatorWeights::Attention(other)) => {
                    for (one, other) in [(&one.query, &other.query), (&one.key, &other.key)] {
                        let mut expected = values(other);
                        if permuted {
                            expected = interleaved(expected, other.columns(), synthetic.head_size);
                        }
                        assert_eq!(values(one), expected);
                    }
                    assert_eq!(values(&one.value), values(&other.value));
                    assert_eq!(values(&one.output), values(&other.output));
                    assert_eq!((&one.query_norm, &one.key_norm), (&other.query_norm, &other.key_norm));
                    assert_eq!(one.query_norm.is_some(), !permuted);
                }
                (OperatorWeights::ShortConvolution(one), OperatorWeights::ShortConvolution(other)) => {
                    assert_eq!(values(&one.in_projection), values(&other.in_projection));
                    assert_eq!(one.convolution, other.convolution);
                    assert_eq!(values(&one.out_projection), values(&other.out_projection));
                }
                (one, other) => panic!("{one:?} against {other:?}"),
            }
        }
        let text = "The Café 12!<|im_end|>";
        for add_special in [false, true] {
            assert_eq!(
                gguf.tokenizer.encode(text, add_special).expect("encoded"),
                hugging_face.tokenizer.encode(text, add_special).expect("encoded")
            );
        }
        assert_eq!(gguf.tokenizer.end_tokens(), hugging_face.tokenizer.end_tokens());
        assert_eq!(gguf.identity.chat_template_hashes(), hugging_face.identity.chat_template_hashes());
    }
}

#[test]
fn weights_have_the_spread_that_was_asked_for() {
    for format in WeightFormat::ALL {
        let mut random = blocks::Random::new(3, 1);
        let bytes = blocks::matrix(&mut random, format, 16, 1024, 0.125).expect("whole blocks");
        let tensor = RandomTensor {
            names: (String::new(), String::new()),
            format,
            shape: vec![16, 1024],
            bytes,
            permuted_heads: None,
        };
        let values = tensor.values().expect("a whole matrix");
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count).sqrt();
        assert!(mean.abs() < 0.02, "{format}: mean {mean}");
        assert!((0.09..0.17).contains(&deviation), "{format}: deviation {deviation}");
    }
}

#[test]
fn a_description_decides_every_byte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = |model: &SyntheticModel| {
        let path = folder.path().join("model.gguf");
        model.write_gguf(&path).expect("written");
        std::fs::read(path).expect("read")
    };
    let one = bytes(&SyntheticModel::lfm2(1));
    assert_eq!(one, bytes(&SyntheticModel::lfm2(1)));
    assert_ne!(one, bytes(&SyntheticModel::lfm2(2)));
    assert!(one.len() < 1 << 20, "{} bytes are not small", one.len());
}

#[test]
fn sampling_defaults_come_back_from_both_containers() {
    let config = json!({"temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1});
    let model = SyntheticModel {
        generation_config: config.as_object().expect("an object").clone(),
        ..SyntheticModel::llama(1)
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    model.write_gguf(&folder.path().join("model.gguf")).expect("written");
    model.write_hugging_face(&folder.path().join("hf")).expect("written");
    for path in ["model.gguf", "hf"] {
        let found = Model::load(&folder.path().join(path)).expect("a valid model").generation_config;
        assert_eq!(found.temperature, Some(0.6));
        assert_eq!(found.top_p, Some(0.95));
        assert_eq!(found.top_k, Some(40));
        assert_eq!(found.min_p, Some(0.05));
        assert_eq!(found.repetition_penalty, Some(1.1));
    }
    let gguf = Model::load(&folder.path().join("model.gguf")).expect("a valid model").generation_config;
    assert_eq!(gguf.raw["temp"], json!(0.6));
}

#[test]
fn without_a_template_there_is_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = SyntheticModel { chat_template: None, ..SyntheticModel::llama(1) };
    model.write_gguf(&folder.path().join("model.gguf")).expect("written");
    let model = Model::load(&folder.path().join("model.gguf")).expect("a valid model");
    assert!(model.chat_template.is_none());
    assert!(model.identity.chat_template_hashes().is_empty());
    assert_eq!(model.identity.name, "synthetic llama 1");
}

#[test]
#[ignore = "writes the models that tests/fixtures/reference.py reads, into the folder STEPSCOPE_REFERENCE_MODELS"]
fn write_reference_models() {
    let folder = std::env::var_os("STEPSCOPE_REFERENCE_MODELS").expect("STEPSCOPE_REFERENCE_MODELS is set");
    for (name, model) in reference_models() {
        model.write_hugging_face(&Path::new(&folder).join(name)).expect("written");
    }
}
