//! Sees the raw head of a request. The HTTP library drops `Content-Length` where there is `Transfer-Encoding` as well, and
//! a second one of the same value, and goes on; such a request is an attempt at smuggling, or broken, and is refused here
//! instead. What the library itself
//! refuses, before there is a request for the router, gets the body here that it comes without.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::ApiError;
use super::observe::{REQUEST_ID, fresh_id};

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
    /// Whether the head tells the length of its body more than once.
    pub fn is_ambiguous(&self, headers: &HeaderMap) -> bool {
        (headers.contains_key(TRANSFER_ENCODING) || headers.contains_key(CONTENT_LENGTH)) && {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            has_several(&seen.bytes)
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

/// Whether one block of header lines tells the length of the body more than once.
fn has_several(bytes: &[u8]) -> bool {
    let mut told = 0;
    for line in bytes.split(|&b| b == b'\n') {
        let named = |name: &[u8]| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && line[name.len()..].first() == Some(&b':')
        };
        told += u8::from(named(b"content-length") || named(b"transfer-encoding"));
        if told > 1 {
            return true;
        }
        if line.is_empty() || line == b"\r" {
            told = 0;
        }
    }
    false
}

/// An answer with a problem as its body: `head` is its first lines, each with its end, and no empty one.
pub fn with_problem(head: &[u8], error: ApiError) -> Vec<u8> {
    let id = fresh_id();
    let more = error.header_lines();
    let body = error.pending().into_json(&id);
    let rest = format!(
        "content-type: application/problem+json\r\ncontent-length: {}\r\n{more}{REQUEST_ID}: {id}\r\n\r\n",
        body.len()
    );
    [head, rest.as_bytes(), &body].concat()
}

/// What to write instead of an answer of the library's own: the router's name their request and are never so bare.
fn instead_of(answer: &[u8]) -> Option<Vec<u8>> {
    // Its version, a space, and a status of the client's faults: told without reading the rest.
    let refusal = answer.strip_prefix(b"HTTP/1.").filter(|rest| rest.get(2) == Some(&b'4'));
    let head = refusal.and_then(|_| answer.strip_suffix(b"\r\n\r\n"))?;
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let first = lines.next()?;
    let status: StatusCode = first.split(' ').nth(1)?.parse().ok().filter(StatusCode::is_client_error)?;
    let mut kept = format!("{first}\r\n");
    let mut is_empty = false;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => is_empty = value.trim() == "0",
            name if name == REQUEST_ID.as_str() => return None,
            _ => kept.extend([line, "\r\n"]),
        }
    }
    is_empty.then(|| with_problem(kept.as_bytes(), ApiError::of_status(status)))
}

/// A connection whose incoming bytes are noted in a [`HeadBytes`].
pub struct Noted<S> {
    stream: S,
    head: HeadBytes,
    /// What is left to write in place of an answer of the library.
    instead: Vec<u8>,
}

impl<S> Noted<S> {
    /// Notes what comes in on the stream.
    pub fn new(stream: S) -> Self {
        Self { stream, head: HeadBytes::default(), instead: Vec::new() }
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
        if self.instead.is_empty() {
            match instead_of(bytes) {
                Some(instead) => self.instead = instead,
                None => return Pin::new(&mut self.stream).poll_write(cx, bytes),
            }
        }
        let Self { stream, instead, .. } = &mut *self;
        while !instead.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.drain(..written);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(first) = first.filter(|first| !self.instead.is_empty() || instead_of(first).is_some()) {
            return self.poll_write(cx, first);
        }
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
    fn several_in_one_head_are_seen_and_in_two_are_not() {
        assert!(has_several(b"POST / HTTP/1.1\r\nContent-Length: 3\r\ncontent-length: 3\r\n\r\n"));
        assert!(has_several(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"));
        assert!(has_several(b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTRANSFER-ENCODING: chunked\r\n\r\n"));
        assert!(has_several(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nx: y\r\ncontent-length:3\r\n"));
        assert!(!has_several(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"));
        assert!(!has_several(
            b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        assert!(!has_several(b"GET / HTTP/1.1\r\nx-content-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn only_bare_refusals_of_the_library_are_replaced() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let answer = String::from_utf8(instead_of(bare).unwrap()).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())) && !head.contains("length: 0"), "{head}");
        assert!(body.contains("\"code\":\"headers-too-large\""), "{body}");
        for other in [
            &b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nx-request-id: a\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            b"{}\r\n\r\n",
        ] {
            assert_eq!(None, instead_of(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[tokio::test]
    async fn a_refusal_is_written_whole_over_a_narrow_pipe() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (near, mut far) = tokio::io::duplex(7);
        let mut noted = Noted::new(near);
        let writing = tokio::spawn(async move {
            noted.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            noted.write_all(b"after").await.unwrap();
        });
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received.starts_with("HTTP/1.1 400 ") && received.ends_with("}after"), "{received}");
        assert_eq!(1, received.matches("\"code\":\"malformed\"").count(), "{received}");
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
