//! The body of a downloaded file, read as it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are read at a time.
const PART: usize = 64 << 10;

/// A file on its way out.
pub(super) struct FileBody(pub tokio::fs::File);

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut bytes = vec![0; PART];
        let mut buffer = ReadBuf::new(&mut bytes);
        if let Err(error) = ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer)) {
            return Poll::Ready(Some(Err(error)));
        }
        let length = buffer.filled().len();
        bytes.truncate(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(bytes.into()))))
    }
}
