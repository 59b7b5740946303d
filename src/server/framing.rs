//! Sees the raw head of a request. The HTTP library drops `Content-Length` where there is `Transfer-Encoding` as well and
//! goes on; such a request is an attempt at smuggling, or broken, and is refused here instead.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::http::HeaderMap;
use axum::http::header::TRANSFER_ENCODING;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes kept: a longer head is refused for its size.
const KEPT_MAX_BYTES: usize = 20 * 1024;

/// What came in on a connection since the last answer began. Travels with every request.
#[derive(Clone, Default)]
pub struct HeadBytes {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    answered: bool,
}

impl HeadBytes {
    /// Whether the head with `Transfer-Encoding` has `Content-Length` too.
    pub fn is_ambiguous(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(TRANSFER_ENCODING) && {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            has_both(&seen.bytes)
        }
    }

    fn read(&self, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut seen.answered) {
            seen.bytes.clear();
        }
        let room = KEPT_MAX_BYTES - seen.bytes.len();
        seen.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn answered(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).answered = true;
    }
}

/// Whether one block of header lines names both.
fn has_both(bytes: &[u8]) -> bool {
    let (mut length, mut encoding) = (false, false);
    for line in bytes.split(|&b| b == b'\n') {
        let named = |name: &[u8]| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && line[name.len()..].first() == Some(&b':')
        };
        length |= named(b"content-length");
        encoding |= named(b"transfer-encoding");
        if length && encoding {
            return true;
        }
        if line.is_empty() || line == b"\r" {
            (length, encoding) = (false, false);
        }
    }
    false
}

/// A connection whose incoming bytes are noted in a [`HeadBytes`].
pub struct Noted<S> {
    stream: S,
    head: HeadBytes,
}

impl<S> Noted<S> {
    /// Notes what comes in on the stream.
    pub fn new(stream: S) -> Self {
        Self { stream, head: HeadBytes::default() }
    }

    /// What came in since the last answer began.
    pub fn head(&self) -> HeadBytes {
        self.head.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() && buffer.filled().len() > before {
            self.head.read(&buffer.filled()[before..]);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.head.answered();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.head.answered();
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_in_one_head_are_seen_and_in_two_are_not() {
        assert!(has_both(b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTRANSFER-ENCODING: chunked\r\n\r\n"));
        assert!(has_both(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nx: y\r\ncontent-length:3\r\n"));
        assert!(!has_both(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"));
        assert!(!has_both(
            b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        assert!(!has_both(b"GET / HTTP/1.1\r\nx-content-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn an_answer_starts_anew() {
        let (head, mut headers) = (HeadBytes::default(), HeaderMap::new());
        headers.insert(TRANSFER_ENCODING, "chunked".parse().unwrap());
        head.read(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n");
        head.answered();
        head.read(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
        assert!(!head.is_ambiguous(&headers));
        head.read(&vec![b'x'; 3 * KEPT_MAX_BYTES]);
        assert_eq!(KEPT_MAX_BYTES, head.seen.lock().unwrap().bytes.len());
    }
}
