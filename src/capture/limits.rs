//! Bounds on what a reader accepts, and a writer therefore keeps to. docs/capture-format.md states them.

/// Longest message, in encoded bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Largest chunk, compressed or not, in bytes.
pub const MAX_CHUNK_BYTES: u64 = 64 << 20;
/// Longest record of another kind (channels, schemas, indexes), in bytes.
pub const MAX_OTHER_RECORD_BYTES: u64 = 64 << 20;
/// Most logits in a row.
pub const MAX_ROW_LENGTH: usize = 1 << 22;
/// Most sketches of one row that a reader gives: five operations in each of some hundred layers are far fewer.
pub const SKETCHES_OF_A_ROW: usize = 1 << 12;
/// Most messages that a reader indexes, payloads apart; it holds about 32 bytes for each step record, and less than 256 for
/// any other.
pub const MAX_INDEXED_MESSAGES: u64 = 1 << 26;
/// Most chunks (or runs of messages outside chunks) in a file.
pub const MAX_SEGMENTS: usize = 1 << 20;
/// Most issues, findings or losses that are told in words; more are counted.
pub const MAX_ISSUES: usize = 1_000;
/// Longest of them, in bytes: their words may quote the file.
pub const MAX_WORDS: usize = 1_000;
/// Bytes of `event` and `loss` messages that a reader indexes, [`NOTE_BYTES`] added for each, so that all of them can be
/// held at once.
pub const MAX_NOTE_BYTES: u64 = 64 << 20;
/// What an `event` or `loss` record takes beside its texts.
pub const NOTE_BYTES: u64 = 256;
/// Bytes of decompressed chunks that a reader keeps for reuse.
pub const CHUNK_CACHE_BYTES: usize = 128 << 20;

/// Most messages, and most payloads, that are accepted of a file of that length: a small file that claims millions would cost memory out of
/// all proportion, and no record compresses to fewer than 8 bytes.
pub fn indexed_messages(file_bytes: u64) -> u64 {
    MAX_INDEXED_MESSAGES.min((1 << 20) + file_bytes / 8)
}

/// At most [`MAX_WORDS`] bytes of a text that may quote a file.
pub(super) fn shortened(mut words: String) -> String {
    if words.len() > MAX_WORDS {
        words.truncate(words.floor_char_boundary(MAX_WORDS));
        words.push_str("...");
    }
    words
}

/// The first 64 characters of a name that a file gives, for a message.
pub(super) fn short_name(name: &str) -> String {
    name.chars().take(64).collect()
}
