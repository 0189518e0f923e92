//! A bounded selection of a long run of things.

/// Every so-manieth of what was pushed, in order; deterministic, and never more than its bound.
#[derive(Clone, Debug)]
pub struct Thinned<T> {
    kept: Vec<T>,
    most: usize,
    every: u64,
    pushed: u64,
}

impl<T> Thinned<T> {
    /// Nothing yet, of which `most` (2 at least) are kept.
    pub fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most: most.max(2), every: 1, pushed: 0 }
    }

    /// Adds one.
    pub fn push(&mut self, thing: T) {
        let is_kept = self.pushed.is_multiple_of(self.every);
        self.pushed += 1;
        if !is_kept {
            return;
        }
        if self.kept.len() == self.most {
            let mut is_odd = true;
            self.kept.retain(|_| {
                is_odd = !is_odd;
                !is_odd
            });
            self.every *= 2;
            if !(self.pushed - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(thing);
    }

    /// Those that are kept.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// How many were pushed.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_so_manieth_is_kept_and_never_more_than_the_bound() {
        for (pushed, every) in [(3, 1), (8, 1), (9, 2), (16, 2), (17, 4), (1000, 128)] {
            let mut thinned = Thinned::new(8);
            (0..pushed).for_each(|number| thinned.push(number));
            let expected: Vec<u64> = (0..pushed).filter(|number| number % every == 0).collect();
            assert_eq!(thinned.kept(), expected, "{pushed}");
            assert!(expected.len() <= 8 && thinned.pushed() == pushed);
        }
    }
}
