//! Memory for packed matrices.
//!
//! A decoded token reads every weight once, so decoding runs at the speed of memory, and with 4 KiB pages the
//! translation of addresses takes about as long as the reads. Matrices therefore share large regions that the system may
//! back with huge pages.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use memmap2::{MmapMut, MmapRaw};

/// Size and alignment of a huge page on the machines that have them at all.
const HUGE_PAGE: usize = 2 << 20;
/// Least size of a region.
const REGION: usize = 32 << 20;
/// Where a matrix may begin: at a cache line.
const ALIGNMENT: usize = 64;

/// Where [`super::PackedMatrix`] values of one model live, in the order in which they were packed; best the order in
/// which a forward pass reads them.
#[derive(Debug, Default)]
pub struct WeightMemory {
    region: Option<Region>,
}

#[derive(Debug)]
struct Region {
    map: Arc<MmapRaw>,
    /// Bytes from the start of the map that are given out.
    used: usize,
}

impl WeightMemory {
    /// Memory without any matrix yet. It may be dropped before the matrices: they keep their memory alive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes room for `count` elements, lets `fill` write them, and makes them immutable.
    pub(in crate::arith) fn store<T: Plain>(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [T]),
    ) -> io::Result<Stored<T>> {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let bytes = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (map, offset) = self.take(bytes)?;
        // SAFETY: `take` gave out `bytes` bytes at `offset`, aligned for `T` and to nobody else, so this is the only
        // reference to them; they are zeros of the new map, which `Plain` says are valid.
        fill(unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().add(offset).cast(), count) });
        Ok(Stored { map, offset, count, elements: PhantomData })
    }

    /// Gives out `bytes` bytes that nobody else has.
    fn take(&mut self, bytes: usize) -> io::Result<(Arc<MmapRaw>, usize)> {
        let room = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = match &mut self.region {
            Some(region) if room <= region.map.len() - region.used => region,
            region => region.insert(Region::new(room)?),
        };
        let offset = region.used;
        region.used += room;
        Ok((Arc::clone(&region.map), offset))
    }
}

impl Region {
    /// A new region with at least `room` bytes left.
    fn new(room: usize) -> io::Result<Self> {
        // One huge page more, to begin at the border of one.
        let size = room.max(REGION).checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(size)?;
        // Only advice: a system without huge pages refuses it, and works as well, slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let used = map.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        Ok(Self { map: Arc::new(MmapRaw::from(map)), used })
    }
}

/// Types of which every bit pattern, all zeros included, is a value.
///
/// # Safety
///
/// That must be so, and the type must have no interior mutability.
pub(in crate::arith) unsafe trait Plain: Copy + Send + Sync {}

// SAFETY: an integer.
unsafe impl Plain for u8 {}

/// Elements in a [`WeightMemory`], immutable.
#[derive(Clone, Debug)]
pub(in crate::arith) struct Stored<T> {
    map: Arc<MmapRaw>,
    offset: usize,
    count: usize,
    elements: PhantomData<T>,
}

impl<T: Plain> std::ops::Deref for Stored<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `store` made this of `count` valid elements at `offset` of a map that `self` keeps alive; nobody writes
        // to them any more.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.offset).cast(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_elements_are_apart_aligned_and_outlive_the_memory() {
        let mut memory = WeightMemory::new();
        let sizes = [1, 63, 64, 65, REGION - 100, 3, REGION + 7, 0, 5];
        let stored: Vec<Stored<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| memory.store(size, |bytes| bytes.fill(index as u8 + 1)).expect("memory"))
            .collect();
        drop(memory);
        for (index, (stored, size)) in stored.iter().zip(sizes).enumerate() {
            assert_eq!(stored.len(), size);
            assert!(stored.iter().all(|&byte| byte == index as u8 + 1), "{index} was overwritten");
            assert!(stored.as_ptr().addr().is_multiple_of(ALIGNMENT));
        }
    }

    #[test]
    fn more_than_the_address_space_is_an_error() {
        let mut memory = WeightMemory::new();
        assert!(memory.store::<u8>(usize::MAX, |_| ()).is_err());
        assert!(memory.store::<u8>(usize::MAX / 4, |_| ()).is_err());
    }
}
