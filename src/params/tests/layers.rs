use serde_json::json;

use super::super::{RequestFields, sampling_recommendation};
use crate::model::GenerationConfig;

#[test]
fn a_layer_survives_the_way_through_json() {
    for layer in [
        json!({}),
        json!({"temperature": 0.7, "top_p": 0.1, "min_p": 0.0, "top_k": 0, "seed": u64::MAX, "stop": ["a"], "n": 2}),
        json!({"logit_bias": {"3": -0.1}, "stop_token_ids": [1], "ignore_eos": false, "max_tokens": 4, "min_tokens": 1}),
        json!({"repetition_penalty": 1.1, "presence_penalty": 0.3, "frequency_penalty": -2.0, "top_k": 5}),
        json!({"logprobs": true, "top_logprobs": 4}),
        json!({"logprobs": false}),
    ] {
        let fields = RequestFields::from_json(&layer).expect("a layer");
        assert_eq!(RequestFields::from_json(&fields.to_json()).expect("a layer"), fields);
        assert_eq!(
            fields.to_json().as_object().map(|object| object.len()),
            layer.as_object().map(|object| object.len())
        );
    }
}

#[test]
fn overrides_come_from_a_configuration_file() {
    let table = "temperature = 0.6\ntop_k = 20\nstop = ['x']".parse::<toml::Table>().expect("TOML");
    let fields = RequestFields::from_toml(&table).expect("a layer");
    assert_eq!((fields.temperature, fields.top_k, fields.top_p), (Some(0.6), Some(Some(20)), None));
    let table = "temprature = 0.6".parse::<toml::Table>().expect("TOML");
    let message = RequestFields::from_toml(&table).expect_err("a typo").to_string();
    assert_eq!(message, "`temprature` is not a known field; did you mean `temperature`?");
    for number in ["nan", "inf", "-inf"] {
        let table = format!("temperature = {number}").parse::<toml::Table>().expect("TOML");
        let message = RequestFields::from_toml(&table).expect_err("no number").to_string();
        assert_eq!(message, "`temperature`: accepted: a finite number; found: nan or inf");
    }
}

#[test]
fn a_generation_config_is_a_layer() {
    let config = GenerationConfig {
        temperature: Some(0.6),
        top_k: Some(0),
        raw: json!({"max_new_tokens": 77}),
        ..GenerationConfig::default()
    };
    let fields = RequestFields::of_generation_config(&config).expect("a layer");
    let expected =
        RequestFields { temperature: Some(0.6), top_k: Some(None), max_tokens: Some(77), ..RequestFields::default() };
    assert_eq!(fields, expected);
    let config = GenerationConfig { top_p: Some(0.0), ..GenerationConfig::default() };
    assert!(RequestFields::of_generation_config(&config).is_err());
}

#[test]
fn a_recommendation_is_told_in_its_own_values() {
    let of = |temperature, raw| {
        sampling_recommendation(&GenerationConfig { temperature, raw, ..GenerationConfig::default() })
    };
    assert_eq!(of(None, json!({})), None);
    assert_eq!(of(Some(0.6), json!({})).as_deref(), Some("temperature 0.6"));
    assert_eq!(of(Some(0.6), json!({"do_sample": true})).as_deref(), Some("do_sample true, temperature 0.6"));
    assert_eq!(of(Some(0.6), json!({"do_sample": false})), None);
    assert_eq!(of(Some(0.0), json!({})), None);
}
