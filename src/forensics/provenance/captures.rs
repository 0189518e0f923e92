//! One capture's parts against another's.

use super::{Compared, Part, PartKind, Verdict};
use crate::hash::compare;

/// Compares parts of the same kind and name. The model, its tokenizer and its template are compared whatever they are called.
pub fn between(recorded: &[Part], other: &[Part]) -> Vec<Compared> {
    let named = |part: &Part| matches!(part.kind, PartKind::Kernel);
    let same = |a: &Part, b: &Part| a.kind == b.kind && (!named(a) || a.name == b.name);
    let compared = recorded.iter().map(|part| {
        let counterpart = other.iter().find(|other| same(part, other));
        let verdict = match counterpart {
            Some(other) => compare(&part.hashes, &other.hashes).into(),
            None => Verdict::NotComparable("the other capture names no such part".to_owned()),
        };
        Compared {
            kind: part.kind,
            name: part.name.clone(),
            with: counterpart.map(|other| other.name.clone()),
            verdict,
        }
    });
    let alone = other.iter().filter(|part| !recorded.iter().any(|own| same(own, part))).map(|part| Compared {
        kind: part.kind,
        name: part.name.clone(),
        with: Some(part.name.clone()),
        verdict: Verdict::NotComparable("the other capture alone names it".to_owned()),
    });
    compared.chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::records::LabelledHash;

    fn part(name: &str, algorithm: &str, hex: &str) -> Part {
        let hashes = vec![LabelledHash { algorithm: algorithm.to_owned(), hex: hex.to_owned() }];
        Part { kind: PartKind::Kernel, name: name.to_owned(), bytes: None, hashes }
    }

    #[test]
    fn only_like_is_compared_with_like() {
        let here = [part("a.cu", "sha256", "01"), part("b.cu", "sha256", "02"), part("c.cu", "sha256", "03")];
        let there = [part("a.cu", "sha256", "01"), part("b.cu", "sha256", "ff"), part("c.cu", "git-blob-sha1", "03")];
        let mut verdicts: Vec<&str> = between(&here, &there).iter().map(|compared| compared.verdict.name()).collect();
        assert_eq!(verdicts, ["equal", "differs", "not_comparable"]);
        let alone = between(&here[..1], &there[..2]);
        verdicts = alone.iter().map(|compared| compared.verdict.name()).collect();
        assert_eq!(verdicts, ["equal", "not_comparable"]);
    }
}
