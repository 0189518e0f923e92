//! Faults of the resolution of parameters.

use serde_json::{Value, json};

use super::Fault;
use crate::params::{Resolved, ResolvedParams, Source};

/// Makes of omitted fields what a bare numeric default makes of them, or passes the model's recommendations over.
pub fn resolve(fault: Fault, resolved: &mut ResolvedParams) {
    match fault {
        Fault::TEMPERATURE_ZERO if is_omitted(resolved.temperature.source) => {
            resolved.temperature = Resolved { value: 0.0, source: Source::ProtocolDefault };
            enter(resolved, "temperature", json!(0.0));
        }
        Fault::SEED_ZERO if is_omitted(resolved.seed.source) => {
            resolved.seed = Resolved { value: 0, source: Source::ProtocolDefault };
            enter(resolved, "seed", json!(0));
        }
        Fault::GENERATION_CONFIG_IGNORED => ignore_recommendations(resolved),
        _ => {}
    }
}

fn is_omitted(source: Source) -> bool {
    source != Source::Client
}

fn enter(resolved: &mut ResolvedParams, name: &str, value: Value) {
    if let Some(chain) = resolved.chain.iter_mut().find(|chain| chain.name == name) {
        (chain.value, chain.source) = (value, Source::ProtocolDefault);
    }
}

fn ignore_recommendations(resolved: &mut ResolvedParams) {
    fn ignore<T>(parameter: &mut Resolved<T>, default: T) -> bool {
        let is_recommended = parameter.source == Source::GenerationConfig;
        if is_recommended {
            *parameter = Resolved { value: default, source: Source::ProtocolDefault };
        }
        is_recommended
    }
    let ignored = [
        ("temperature", ignore(&mut resolved.temperature, 1.0), json!(1.0)),
        ("top_p", ignore(&mut resolved.top_p, 1.0), json!(1.0)),
        ("min_p", ignore(&mut resolved.min_p, 0.0), json!(0.0)),
        ("top_k", ignore(&mut resolved.top_k, None), Value::Null),
        ("repetition_penalty", ignore(&mut resolved.repetition_penalty, 1.0), json!(1.0)),
    ];
    for (name, _, default) in ignored.into_iter().filter(|(_, is_ignored, _)| *is_ignored) {
        enter(resolved, name, default);
    }
}
