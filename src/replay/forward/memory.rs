//! What a sequence has to remember, in the plainest form: every position, in order.

/// What one layer's operator keeps of each position: key then value for attention, the gated input for a convolution.
pub(super) type History = Vec<Box<[f32]>>;

/// What every layer keeps of one sequence.
///
/// Grows per token by `2 · kv_heads · head_size` floats for each attention layer and by `hidden_size` floats for each
/// convolution layer.
#[derive(Clone)]
pub struct Memory {
    length: u32,
    pub(super) layers: Vec<History>,
}

impl Memory {
    pub(super) fn new(layers: usize) -> Self {
        Self { length: 0, layers: vec![History::new(); layers] }
    }

    /// Tokens fed so far.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Forgets every token from position `length` on, as if it had never been fed.
    pub fn truncate(&mut self, length: u32) {
        self.length = self.length.min(length);
        for layer in &mut self.layers {
            layer.truncate(length as usize);
        }
    }

    /// Makes room for one token and returns its position.
    pub(super) fn advance(&mut self) -> u32 {
        let position = self.length;
        self.length += 1;
        position
    }
}

/// What the `count` positions before `position` keep, `size` elements each, oldest first; zeros before the sequence, and
/// for positions that were not fed.
pub(super) fn before(history: &History, position: usize, count: usize, size: usize) -> Vec<f32> {
    let mut columns = vec![0.0; count * size];
    for (column, out) in columns.chunks_mut(size).enumerate() {
        let kept = (position + column).checked_sub(count).and_then(|position| history.get(position));
        kept.into_iter().for_each(|kept| out.copy_from_slice(kept));
    }
    columns
}
