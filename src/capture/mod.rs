//! Captures: records, codecs, writer, reader, recovery.

pub mod records;
