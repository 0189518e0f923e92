//! The paged key-value cache: storage for pages that the engine hands out.

use std::ops::Range;

use super::disjoint::Disjoint;
use crate::arith::{KvPage, KvPageMut, KvType};
use crate::backend::BackendError;
use crate::types::PageId;

/// Keys and values of every page, laid out `[layer][page][key-value head]`, each block as [`KvPage`] wants it.
pub(super) struct KvCache {
    shape: KvShape,
    layers: Vec<KvLayer>,
}

/// The shape of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct KvShape {
    pub kv_type: KvType,
    /// Attention layers.
    pub layers: usize,
    pub pages: usize,
    pub kv_heads: usize,
    pub head_size: usize,
}

enum KvLayer {
    F32 { keys: Vec<f32>, values: Vec<f32> },
    F16 { keys: Vec<u16>, values: Vec<u16> },
}

/// The pages of one layer while several threads write them.
pub(super) struct KvWriter<'a> {
    shape: KvShape,
    elements: KvElements<'a>,
}

enum KvElements<'a> {
    F32 { keys: Disjoint<'a, f32>, values: Disjoint<'a, f32> },
    F16 { keys: Disjoint<'a, u16>, values: Disjoint<'a, u16> },
}

impl KvShape {
    /// Keys of one layer, in elements; its values take as many.
    fn layer_elements(&self) -> usize {
        self.pages * self.page_elements()
    }

    /// Keys of all heads in one page.
    fn page_elements(&self) -> usize {
        self.kv_heads * KvPage::elements(self.head_size)
    }

    /// Where the block of one head of one page stands.
    fn block(&self, page: PageId, head: usize) -> Range<usize> {
        let size = KvPage::elements(self.head_size);
        let start = (page.0 as usize * self.kv_heads + head) * size;
        start..start + size
    }

    /// Bytes of the whole cache; `None` when they overflow.
    fn bytes(&self) -> Option<usize> {
        let element = match self.kv_type {
            KvType::F32 => size_of::<f32>(),
            KvType::F16 => size_of::<u16>(),
        };
        self.page_elements().checked_mul(2 * element)?.checked_mul(self.layers)?.checked_mul(self.pages)
    }
}

impl KvCache {
    /// A cache of `shape`. Memory is taken from the system page by page, as it is first written.
    pub(super) fn new(shape: KvShape) -> Result<Self, BackendError> {
        let KvShape { pages, layers, .. } = shape;
        let fits = shape.bytes().is_some_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        if !fits {
            let message =
                format!("{pages} pages of key-value cache for {layers} layers do not fit in memory; ask for fewer");
            return Err(BackendError::Configuration(message));
        }
        let elements = shape.layer_elements();
        let layer = |_| match shape.kv_type {
            KvType::F32 => KvLayer::F32 { keys: vec![0.0; elements], values: vec![0.0; elements] },
            KvType::F16 => KvLayer::F16 { keys: vec![0; elements], values: vec![0; elements] },
        };
        Ok(Self { shape, layers: (0..layers).map(layer).collect() })
    }

    pub(super) fn pages(&self) -> usize {
        self.shape.pages
    }

    /// What head `head` keeps in `page`.
    pub(super) fn page(&self, layer: usize, page: PageId, head: usize) -> KvPage<'_> {
        let block = self.shape.block(page, head);
        match &self.layers[layer] {
            KvLayer::F32 { keys, values } => KvPage::F32 { keys: &keys[block.clone()], values: &values[block] },
            KvLayer::F16 { keys, values } => KvPage::F16 { keys: &keys[block.clone()], values: &values[block] },
        }
    }

    /// The pages of `layer`, to be written by several threads.
    pub(super) fn writer(&mut self, layer: usize) -> KvWriter<'_> {
        let elements = match &mut self.layers[layer] {
            KvLayer::F32 { keys, values } => {
                KvElements::F32 { keys: Disjoint::new(keys), values: Disjoint::new(values) }
            }
            KvLayer::F16 { keys, values } => {
                KvElements::F16 { keys: Disjoint::new(keys), values: Disjoint::new(values) }
            }
        };
        KvWriter { shape: self.shape, elements }
    }

    /// See [`crate::backend::Backend::copy_page`].
    pub(super) fn copy_page(&mut self, from: PageId, to: PageId) -> Result<(), BackendError> {
        for page in [from, to] {
            if page.0 as usize >= self.shape.pages {
                let message = format!("there are {} pages", self.shape.pages);
                return Err(BackendError::Resource { kind: "page", id: page.0, message });
            }
        }
        let size = self.shape.page_elements();
        let source = from.0 as usize * size..(from.0 as usize + 1) * size;
        let target = to.0 as usize * size;
        for layer in &mut self.layers {
            match layer {
                KvLayer::F32 { keys, values } => {
                    keys.copy_within(source.clone(), target);
                    values.copy_within(source.clone(), target);
                }
                KvLayer::F16 { keys, values } => {
                    keys.copy_within(source.clone(), target);
                    values.copy_within(source.clone(), target);
                }
            }
        }
        Ok(())
    }
}

impl KvWriter<'_> {
    /// What head `head` keeps in `page`, to be written.
    ///
    /// # Safety
    ///
    /// No two calls on one writer may name the same page and head.
    pub(super) unsafe fn page(&self, page: PageId, head: usize) -> KvPageMut<'_> {
        let block = self.shape.block(page, head);
        // SAFETY: blocks of different pages or heads do not overlap, and the caller names each at most once.
        unsafe {
            match &self.elements {
                KvElements::F32 { keys, values } => {
                    KvPageMut::F32 { keys: keys.part(block.clone()), values: values.part(block) }
                }
                KvElements::F16 { keys, values } => {
                    KvPageMut::F16 { keys: keys.part(block.clone()), values: values.part(block) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::ATTENTION_CHUNK;

    const HEAD: usize = 4;

    fn shape(kv_type: KvType) -> KvShape {
        KvShape { kv_type, layers: 2, pages: 3, kv_heads: 2, head_size: HEAD }
    }

    fn element(page: KvPage<'_>, slot: usize, index: usize) -> (f32, f32) {
        let (key, value) = (index * ATTENTION_CHUNK + slot, slot * HEAD + index);
        match page {
            KvPage::F32 { keys, values } => (keys[key], values[value]),
            KvPage::F16 { keys, values } => {
                (crate::arith::scalar::f16_to_f32(keys[key]), crate::arith::scalar::f16_to_f32(values[value]))
            }
        }
    }

    #[test]
    fn a_position_is_stored_in_its_block_and_copied_with_its_page() {
        for kv_type in [KvType::F32, KvType::F16] {
            let mut cache = KvCache::new(shape(kv_type)).unwrap();
            let key = [1.0, 2.0, 3.0, 4.0];
            let value = [5.0, 6.0, 7.0, 8.0];
            let writer = cache.writer(1);
            // SAFETY: the only call on this writer.
            unsafe { writer.page(PageId(2), 1) }.store(9, &key, &value);
            drop(writer);
            cache.copy_page(PageId(2), PageId(0)).unwrap();
            for page in [PageId(2), PageId(0)] {
                for index in 0..HEAD {
                    assert_eq!(element(cache.page(1, page, 1), 9, index), (key[index], value[index]));
                    assert_eq!(element(cache.page(1, page, 0), 9, index), (0.0, 0.0));
                    assert_eq!(element(cache.page(0, page, 1), 9, index), (0.0, 0.0));
                }
            }
            assert!(cache.copy_page(PageId(3), PageId(0)).unwrap_err().to_string().contains("3 pages"));
        }
    }

    #[test]
    fn a_cache_that_cannot_fit_is_an_error() {
        let error = KvCache::new(KvShape { pages: usize::MAX / 2, ..shape(KvType::F32) }).err().unwrap();
        assert!(error.to_string().contains("do not fit in memory"), "{error}");
    }
}
