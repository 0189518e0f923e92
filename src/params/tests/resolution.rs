use super::super::{Defaults, RequestFields, Source, Warning};
use super::{chat, completion, defaults, parse};

fn resolve(body: &str, defaults: &Defaults) -> super::super::ResolvedParams {
    parse(body).expect("a request").resolve(defaults).expect("resolvable")
}

/// Server 0.5, model 0.6.
fn layered() -> Defaults {
    Defaults {
        server: RequestFields { temperature: Some(0.5), ..RequestFields::default() },
        generation_config: RequestFields { temperature: Some(0.6), top_p: Some(0.95), ..RequestFields::default() },
        ..defaults()
    }
}

#[test]
fn the_strongest_layer_that_speaks_decides() {
    let temperature = |body: &str, defaults: &Defaults| {
        let resolved = resolve(body, defaults).temperature;
        (resolved.value, resolved.source)
    };
    let mut defaults = layered();
    assert_eq!(temperature(&chat(r#""temperature": 0.7"#), &defaults), (0.7, Source::Client));
    assert_eq!(temperature(&chat(""), &defaults), (0.5, Source::ServerOverride));
    defaults.server.temperature = None;
    assert_eq!(temperature(&chat(r#""temperature": null"#), &defaults), (0.6, Source::GenerationConfig));
    defaults.generation_config.temperature = None;
    assert_eq!(temperature(&chat(""), &defaults), (1.0, Source::ProtocolDefault));
}

/// Both endpoints, since a server once had the fallback in one of its request classes only.
#[test]
fn both_endpoints_resolve_alike() {
    for body in [chat(""), completion("")] {
        let resolved = resolve(&body, &layered());
        assert_eq!((resolved.temperature.value, resolved.temperature.source), (0.5, Source::ServerOverride));
        assert_eq!((resolved.top_p.value, resolved.top_p.source), (0.95, Source::GenerationConfig));
    }
}

#[test]
fn an_explicit_zero_wins_over_every_default() {
    let mut defaults = layered();
    defaults.server.seed = Some(5);
    let resolved = resolve(&chat(r#""temperature": 0, "seed": 0, "top_k": 0"#), &defaults);
    assert_eq!((resolved.temperature.value, resolved.temperature.source), (0.0, Source::Client));
    assert_eq!((resolved.seed.value, resolved.seed.source), (0, Source::Client));
    assert_eq!((resolved.top_k.value, resolved.top_k.source), (None, Source::Client));
}

#[test]
fn an_omitted_seed_is_fresh_each_time_and_never_zero() {
    let seeds: Vec<_> = (0..100).map(|_| resolve(&chat(""), &defaults()).seed).collect();
    assert!(seeds.iter().all(|seed| seed.source == Source::Generated && seed.value != 0));
    let distinct: std::collections::HashSet<_> = seeds.iter().map(|seed| seed.value).collect();
    assert_eq!(distinct.len(), 100);
}

#[test]
fn the_protocol_defaults_are_the_documented_ones() {
    let chat = resolve(&chat(""), &defaults()).sampling();
    let completion = resolve(&completion(""), &defaults()).sampling();
    assert_eq!((chat.temperature, chat.top_p, chat.min_p, chat.top_k), (1.0, 1.0, 0.0, None));
    assert_eq!((chat.repetition_penalty, chat.presence_penalty, chat.frequency_penalty), (1.0, 0.0, 0.0));
    assert_eq!((chat.min_tokens, chat.choices, chat.logprobs, chat.ignore_eos), (0, 1, None, false));
    assert_eq!((chat.max_tokens, completion.max_tokens), (2_048, 16));
}

#[test]
fn the_whole_chain_is_kept() {
    let resolved = resolve(&chat(r#""temperature": 0.7, "logit_bias": {"9": 0.1, "8": -1}"#), &layered());
    let of = |name: &str| resolved.chain.iter().find(|chain| chain.name == name).expect("every parameter has a chain");
    let temperature = of("temperature");
    assert_eq!(temperature.client.as_ref().expect("given").to_string(), "0.7");
    assert_eq!(temperature.server_override.as_ref().expect("given").to_string(), "0.5");
    assert_eq!(temperature.generation_config.as_ref().expect("given").to_string(), "0.6");
    assert_eq!(temperature.protocol_default.as_ref().expect("given").to_string(), "1.0");
    assert_eq!((temperature.value.to_string().as_str(), temperature.source), ("0.7", Source::Client));
    let seed = of("seed");
    assert_eq!((seed.client.as_ref(), seed.protocol_default.as_ref(), seed.source), (None, None, Source::Generated));
    assert_eq!(of("logit_bias").value.to_string(), r#"{"8":-1.0,"9":0.1}"#);
    assert_eq!(of("top_k").value, serde_json::Value::Null);
    assert_eq!(resolved.chain.len(), 16);
}

#[test]
fn greedy_on_a_model_that_wants_sampling_is_a_warning() {
    let mut defaults = Defaults { recommends_sampling: Some("temperature 0.6".to_owned()), ..defaults() };
    let warnings = |body: &str, defaults: &Defaults| resolve(body, defaults).warnings;
    let greedy = |origin: &str| {
        let (origin, recommendation) = (origin.to_owned(), "temperature 0.6".to_owned());
        vec![Warning::GreedyAgainstRecommendation { origin, recommendation }]
    };
    assert_eq!(warnings(&chat(r#""temperature": 0"#), &defaults), greedy("client"));
    assert_eq!(warnings(&chat(r#""temperature": 0.01"#), &defaults), []);
    defaults.server.temperature = Some(0.0);
    assert_eq!(warnings(&chat(""), &defaults), greedy("server override"));
    defaults.recommends_sampling = None;
    assert_eq!(warnings(&chat(r#""temperature": 0"#), &defaults), []);
}

#[test]
fn a_seed_without_sampling_is_a_warning() {
    let warnings = |fields: &str| resolve(&chat(fields), &defaults()).warnings;
    assert_eq!(warnings(r#""temperature": 0, "seed": 3"#), [Warning::SeedWithoutSampling]);
    assert_eq!(warnings(r#""temperature": 0"#), []);
    assert_eq!(warnings(r#""seed": 3"#), []);
}
