//! The file under a writer: chunks of records, chunks of payloads, and the `.partial` life cycle.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{Compression, McapError, WriteOptions};

use super::super::codec::{EncodeError, Encoding};
use super::super::columns::{self, STEPS_OF_A_BATCH};
use super::super::conditions::Conditions;
use super::super::error::CaptureError;
use super::super::records::{Header, LogitsRecord, LossRecord, StepRecord};
use super::super::row::encode_full;
use super::super::topic::{Record, Topic};
use super::super::upgrade::FormatVersion;
use super::batch::Batch;
use super::queue::Item;
use super::{ChannelSummary, RowKey, WriteSummary, WriterOptions};

/// MCAP profile of a capture.
pub(in crate::capture) const PROFILE: &str = "stepscope";
/// Encoding of the schema records, whose data is the format version in decimal digits.
const SCHEMA_ENCODING: &str = "stepscope";
/// Uncompressed bytes of a chunk of records.
const RECORD_CHUNK_BYTES: usize = 512 << 10;
/// Uncompressed bytes of a chunk of payloads.
const PAYLOAD_CHUNK_BYTES: usize = 2 << 20;
/// Message bytes after which the header is repeated, so that a damaged beginning costs only itself.
const HEADER_REPEAT_BYTES: u64 = 64 << 20;
/// zstd level of chunks.
const CHUNK_LEVEL: u32 = 1;

type McapWriter = mcap::Writer<NoSeek<BufWriter<Box<dyn Output>>>>;

/// Where the bytes of a capture go.
pub(in crate::capture) trait Output: Write + Send {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Output for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

pub(super) struct CaptureFile {
    path: PathBuf,
    partial: PathBuf,
    mcap: McapWriter,
    version: FormatVersion,
    encoding: Encoding,
    header: Vec<u8>,
    epoch_ns: u64,
    bytes_since_header: u64,
    records: Batch,
    payloads: Batch,
    columns: Batch,
    /// Those of the step records since the last batch of columns.
    conditions: Conditions,
    channels: BTreeMap<Topic, ChannelSummary>,
    /// Time of the latest message.
    latest: u64,
}

impl CaptureFile {
    /// Creates the partial file with its first chunk: schemas, channels and the header.
    pub(super) fn create(path: &Path, header: Header, options: &WriterOptions) -> Result<Self, CaptureError> {
        let partial = partial_path(path);
        if path.exists() {
            return Err(CaptureError::Exists { path: path.to_owned() });
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&partial);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CaptureError::Exists { path: partial.clone() },
            _ => CaptureError::Io { path: partial.clone(), action: "create the file", source },
        })?;
        Self::create_on(path, Box::new(file), header, options)
    }

    /// Writes the first chunk of a capture of that name to `output`.
    pub(super) fn create_on(
        path: &Path,
        output: Box<dyn Output>,
        header: Header,
        options: &WriterOptions,
    ) -> Result<Self, CaptureError> {
        let partial = partial_path(path);
        let epoch_ns = header.epoch_ns;
        let found = header.format_version;
        let version =
            FormatVersion::new(found).map_err(|_| CaptureError::NewerFormat { path: path.to_owned(), found })?;
        let encoded = version.encode(options.encoding, &Record::from(header));
        let encoded = encoded.map_err(|source| CaptureError::Encode { topic: Topic::Header, source })?;
        let mcap = begin(output, version, options.encoding).map_err(|error| write_failed(&partial, error))?;
        let mut this = Self {
            path: path.to_owned(),
            partial,
            mcap,
            version,
            encoding: options.encoding,
            header: encoded,
            epoch_ns,
            bytes_since_header: 0,
            records: Batch::new(RECORD_CHUNK_BYTES),
            payloads: Batch::new(PAYLOAD_CHUNK_BYTES),
            columns: Batch::new(PAYLOAD_CHUNK_BYTES),
            conditions: Conditions::of_format(found),
            channels: BTreeMap::new(),
            latest: epoch_ns,
        };
        this.repeat_header();
        this.write_chunk(Kind::Records)?;
        Ok(this)
    }

    /// Encodes one item; a full chunk is written. What cannot be encoded becomes a loss record.
    pub(super) fn write(&mut self, item: Item) -> Result<(), CaptureError> {
        let (topic, log_time) = (item.topic(), item.log_time());
        match encode(&item, self.version, self.encoding) {
            Ok(message) => {
                self.push(topic, log_time, &message);
                if let Item::Record { record: Record::Step(step), .. } = &item {
                    self.add_to_columns(step, log_time)?;
                }
            }
            Err(error) => self.push_loss(topic, log_time, &error)?,
        }
        if self.bytes_since_header >= HEADER_REPEAT_BYTES {
            self.repeat_header();
        }
        for kind in Kind::ALL {
            if self.batch(kind).is_full() {
                self.write_chunk(kind)?;
            }
        }
        Ok(())
    }

    /// Writes out what has waited for at least `age`.
    pub(super) fn flush_if_older_than(&mut self, age: Duration) -> Result<(), CaptureError> {
        let now = Instant::now();
        for kind in Kind::ALL {
            if self.batch(kind).since().is_some_and(|since| now.duration_since(since) >= age) {
                self.write_chunk(kind)?;
            }
        }
        Ok(())
    }

    /// Writes the rest, the index and the summary; then the file is made durable and gets its name.
    pub(super) fn finish(mut self) -> Result<WriteSummary, CaptureError> {
        self.write_columns(self.latest)?;
        // In the last chunk.
        self.write_chunk(Kind::Payloads)?;
        self.repeat_header();
        self.write_chunk(Kind::Records)?;
        self.mcap.finish().map_err(|error| write_failed(&self.partial, error))?;
        let Self { path, partial, mcap, channels, .. } = self;
        let file_bytes = close(mcap, &partial)?;
        if path.exists() {
            return Err(CaptureError::Exists { path });
        }
        let io = |action| move |source| CaptureError::Io { path: partial.clone(), action, source };
        std::fs::rename(partial_path(&path), &path).map_err(io("give the finished file its name"))?;
        sync_directory(&path)?;
        Ok(WriteSummary { path, file_bytes, channels: channels.into_values().collect(), dropped: 0 })
    }

    /// Writes the rest as whole chunks and leaves the partial file without an end, which says that it has none.
    pub(super) fn abandon(mut self) -> Result<WriteSummary, CaptureError> {
        self.write_columns(self.latest)?;
        self.write_chunk(Kind::Payloads)?;
        self.write_chunk(Kind::Records)?;
        let Self { partial, mcap, channels, .. } = self;
        let file_bytes = close(mcap, &partial)?;
        Ok(WriteSummary { path: partial, file_bytes, channels: channels.into_values().collect(), dropped: 0 })
    }

    fn push_loss(&mut self, topic: Topic, log_time: u64, error: &EncodeError) -> Result<(), CaptureError> {
        tracing::error!("a `{topic}` record is lost: {error}");
        let loss = LossRecord {
            time_ns: log_time.saturating_sub(self.epoch_ns),
            channel: topic.name().to_owned(),
            messages: Some(1),
            bytes: None,
            steps: None,
            reason: format!("the record could not be written: {error}"),
        };
        let message = self.version.encode(self.encoding, &Record::Loss(loss));
        let message = message.map_err(|source| CaptureError::Encode { topic: Topic::Loss, source })?;
        self.push(Topic::Loss, log_time, &message);
        Ok(())
    }

    fn repeat_header(&mut self) {
        let header = std::mem::take(&mut self.header);
        self.push(Topic::Header, self.epoch_ns, &header);
        self.header = header;
        self.bytes_since_header = 0;
    }

    fn push(&mut self, topic: Topic, log_time: u64, message: &[u8]) {
        let channel = self.channels.entry(topic).or_insert(ChannelSummary { topic, messages: 0, bytes: 0 });
        channel.messages += 1;
        self.latest = self.latest.max(log_time);
        channel.bytes += message.len() as u64;
        self.bytes_since_header += message.len() as u64;
        // Counted from 1, since MCAP reserves 0 for "not counted"; a reader sees from gaps what is missing.
        let sequence = ((channel.messages - 1) % u64::from(u32::MAX)) as u32 + 1;
        let header = MessageHeader { channel_id: topic.channel_id(), sequence, log_time, publish_time: log_time };
        self.batch(Kind::of(topic)).push(header, message);
    }

    fn add_to_columns(&mut self, step: &StepRecord, log_time: u64) -> Result<(), CaptureError> {
        if self.version.has_columns() {
            self.conditions.push(step);
        }
        if self.conditions.len() < STEPS_OF_A_BATCH {
            return Ok(());
        }
        self.write_columns(log_time)
    }

    /// Writes the conditions of the steps since the last time, after these steps.
    fn write_columns(&mut self, log_time: u64) -> Result<(), CaptureError> {
        let conditions = self.conditions.take();
        if conditions.is_empty() {
            return Ok(());
        }
        let steps = self.channels.get(&Topic::Step).map_or(0, |channel| channel.messages);
        let record = columns::encode(&conditions, steps - conditions.len() as u64)
            .map_err(|error| EncodeError::Refused { encoding: "Arrow", message: error.to_string() })
            .and_then(|record| self.version.encode(self.encoding, &Record::Columns(record)));
        match record {
            Ok(message) => {
                self.write_chunk(Kind::Records)?;
                self.push(Topic::Columns, log_time, &message);
                self.write_chunk(Kind::Columns)
            }
            Err(error) => self.push_loss(Topic::Columns, log_time, &error),
        }
    }

    fn batch(&mut self, kind: Kind) -> &mut Batch {
        match kind {
            Kind::Records => &mut self.records,
            Kind::Payloads => &mut self.payloads,
            Kind::Columns => &mut self.columns,
        }
    }

    fn write_chunk(&mut self, kind: Kind) -> Result<(), CaptureError> {
        let batch = match kind {
            Kind::Records => &mut self.records,
            Kind::Payloads => &mut self.payloads,
            Kind::Columns => &mut self.columns,
        };
        if batch.is_empty() {
            return Ok(());
        }
        let written =
            batch.messages().try_for_each(|(header, message)| self.mcap.write_to_known_channel(header, message));
        batch.clear();
        written.and_then(|()| self.mcap.flush()).map_err(|error| write_failed(&self.partial, error))
    }
}

/// The message of an item; a raw row is compressed here.
fn encode(item: &Item, version: FormatVersion, encoding: Encoding) -> Result<Vec<u8>, EncodeError> {
    match item {
        Item::Record { record, .. } => version.encode(encoding, record),
        &Item::Row { key: RowKey { step, request, choice, row }, ref values, .. } => {
            let payload = encode_full(values)
                .map_err(|error| EncodeError::Refused { encoding: "a row", message: error.to_string() })?;
            version.encode(encoding, &Record::Logits(LogitsRecord { step, request, choice, row, payload }))
        }
    }
}

/// A chunk holds one of these, so that records can be scanned without reading payloads, and columns without either.
#[derive(Clone, Copy)]
enum Kind {
    Records,
    Payloads,
    Columns,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Records, Self::Payloads, Self::Columns];

    fn of(topic: Topic) -> Self {
        match topic {
            Topic::Columns => Self::Columns,
            topic if topic.is_payload() => Self::Payloads,
            _ => Self::Records,
        }
    }
}

/// The name a capture has while it grows.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}

fn begin(output: Box<dyn Output>, version: FormatVersion, encoding: Encoding) -> Result<McapWriter, McapError> {
    let options = WriteOptions::new()
        .profile(PROFILE)
        .library(concat!("stepscope ", env!("CARGO_PKG_VERSION")))
        .compression(Some(Compression::Zstd))
        .compression_level(CHUNK_LEVEL)
        .compression_threads(0)
        // A chunk ends where a batch does, and reaches the file in one piece.
        .chunk_size(None)
        .disable_seeking(true);
    let mut mcap = options.create(NoSeek::new(BufWriter::new(output)))?;
    let digits = version.number().to_string();
    for topic in Topic::ALL.into_iter().filter(|topic| topic.is_in(version)) {
        let schema = mcap.add_schema(topic.schema_name(), SCHEMA_ENCODING, digits.as_bytes())?;
        mcap.add_channel_with_id(topic.channel_id(), schema, topic.name(), encoding.name(), &BTreeMap::new())?;
    }
    Ok(mcap)
}

/// Takes the file out from under the MCAP writer (whose drop would append an end) and makes it durable.
fn close(mcap: McapWriter, path: &Path) -> Result<u64, CaptureError> {
    let io = |action: &'static str| move |source| CaptureError::Io { path: path.to_owned(), action, source };
    let buffered = mcap.into_inner().into_inner();
    let mut output = buffered.into_inner().map_err(|error| io("write")(error.into_error()))?;
    output.sync().map_err(io("make the file durable"))?;
    Ok(std::fs::metadata(path).map_err(io("read the file's length"))?.len())
}

/// Makes a rename durable.
fn sync_directory(path: &Path) -> Result<(), CaptureError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|source| CaptureError::Io {
        path: directory.to_owned(),
        action: "make the new name durable",
        source,
    })
}

fn write_failed(path: &Path, error: McapError) -> CaptureError {
    let source = match error {
        McapError::Io(source) => source,
        other => io::Error::other(other),
    };
    CaptureError::Io { path: path.to_owned(), action: "write", source }
}
