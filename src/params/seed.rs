//! Fresh seeds for requests that bring none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Increment of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Requests of this process that were given a fresh seed.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A seed that no other call of this process returns for the same clock reading, and that is never 0.
pub fn fresh() -> u64 {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64);
    mix(nanoseconds, COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// SplitMix64's finalizer over the clock and the counter; the finalizer is a bijection, so that equal clocks with
/// different counters give different seeds.
fn mix(nanoseconds: u64, counter: u64) -> u64 {
    let mut state = nanoseconds.wrapping_add(counter.wrapping_mul(GOLDEN_GAMMA)).wrapping_add(GOLDEN_GAMMA);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // 0 is the one value that a client can confuse with "no seed".
    match state ^ (state >> 31) {
        0 => GOLDEN_GAMMA,
        seed => seed,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn mixing_matches_the_published_generator() {
        // First outputs of SplitMix64 from state 1234567 (Vigna's reference implementation).
        assert_eq!(mix(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(mix(1_234_567, 1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn equal_clock_readings_give_different_seeds() {
        let seeds: HashSet<u64> = (0..10_000).map(|counter| mix(42, counter)).collect();
        assert_eq!(seeds.len(), 10_000);
        assert!(!seeds.contains(&0));
    }

    #[test]
    fn the_one_state_that_finalizes_to_zero_is_replaced() {
        assert_eq!(mix(GOLDEN_GAMMA.wrapping_neg(), 0), GOLDEN_GAMMA);
    }

    #[test]
    fn consecutive_seeds_differ() {
        assert_ne!(fresh(), fresh());
    }
}
