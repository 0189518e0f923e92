//! A slice that several threads write at once, each its own parts.

use std::marker::PhantomData;
use std::ops::Range;

/// An exclusive borrow of a slice, handed out in parts that do not overlap.
///
/// Rust's own splitting makes one slice per part in advance; a region here has thousands of parts of a few hundred
/// bytes, strided through a buffer. In unit tests every part handed out is remembered, and an overlap panics.
pub(super) struct Disjoint<'a, T> {
    values: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
    #[cfg(test)]
    handed_out: std::sync::Mutex<std::collections::BTreeMap<usize, usize>>,
}

// SAFETY: a `Disjoint` stands for its exclusive borrow, and `part` keeps the parts of different threads apart, so
// that no `T` is ever shared, only sent.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(super) fn new(values: &'a mut [T]) -> Self {
        Self {
            values: values.as_mut_ptr(),
            length: values.len(),
            borrow: PhantomData,
            #[cfg(test)]
            handed_out: Default::default(),
        }
    }

    /// The elements `range`, to be written.
    ///
    /// # Safety
    ///
    /// No two parts taken from one `Disjoint` may overlap, whether or not they live at the same time.
    ///
    /// # Panics
    ///
    /// If `range` goes past the end.
    #[expect(clippy::mut_from_ref, reason = "the contract of this function makes the parts exclusive")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "part {range:?} of {}", self.length);
        #[cfg(test)]
        self.remember(&range);
        // SAFETY: the range lies inside the borrowed slice, and the caller keeps parts from overlapping.
        // Test: `overlapping_parts_are_refused_in_tests` shows that every unit test of a region checks this.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(range.start), range.len()) }
    }

    /// Row `row` of a slice of rows of `width` elements.
    ///
    /// # Safety
    ///
    /// As for [`part`](Self::part).
    #[expect(clippy::mut_from_ref, reason = "as for `part`")]
    pub(super) unsafe fn row(&self, row: usize, width: usize) -> &mut [T] {
        // SAFETY: the same contract.
        unsafe { self.part(row * width..(row + 1) * width) }
    }

    #[cfg(test)]
    fn remember(&self, range: &Range<usize>) {
        if range.is_empty() {
            return;
        }
        let mut handed_out = self.handed_out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = handed_out.range(..range.end).next_back();
        assert!(before.is_none_or(|(_, &end)| end <= range.start), "part {range:?} overlaps {before:?}");
        handed_out.insert(range.start, range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_their_own_parts() {
        let mut values = vec![0; 100];
        let parts = Disjoint::new(&mut values);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let parts = &parts;
                scope.spawn(move || {
                    for row in (thread..10).step_by(2) {
                        // SAFETY: each row is written by the one thread of its parity.
                        unsafe { parts.row(row, 10) }.fill(row);
                    }
                });
            }
        });
        assert!(values.iter().enumerate().all(|(index, &value)| value == index / 10), "{values:?}");
    }

    #[test]
    fn overlapping_parts_are_refused_in_tests() {
        for (first, second) in [(0..4, 3..5), (3..5, 0..4), (2..3, 0..9), (0..9, 2..3)] {
            let mut values = [0; 10];
            let parts = Disjoint::new(&mut values);
            // SAFETY: the only part so far.
            unsafe { parts.part(first) };
            let overlap = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // SAFETY: `remember` panics before the second part is made.
                unsafe { parts.part(second) }.len()
            }));
            assert!(overlap.is_err());
        }
    }

    #[test]
    #[should_panic(expected = "part 8..11 of 10")]
    fn a_part_past_the_end_is_refused() {
        // SAFETY: the only part.
        unsafe { Disjoint::new(&mut [0; 10]).part(8..11) };
    }
}
