//! The bytes between this controller and one server: over TLS or not, and no more of them than an answer may have. What a server
//! sends is memory here, and a server is not trusted to end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::settings::Tls;

/// How long a server may take to show what it speaks.
const PROBE_TIME: Duration = Duration::from_millis(700);

/// How much a server may send before a call has its answer.
#[derive(Debug)]
pub(super) struct Budget {
    most: AtomicU64,
    taken: AtomicU64,
    exceeded: AtomicBool,
}

impl Budget {
    pub fn new(most: u64) -> Arc<Self> {
        let (taken, exceeded) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { most: AtomicU64::new(most), taken, exceeded })
    }

    /// Allows so much from now on, if that is more than before.
    pub fn raise(&self, most: u64) {
        self.most.fetch_max(most, Ordering::Relaxed);
    }

    /// A call has its answer: what comes now is of the next one.
    pub fn renew(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    /// Why the connection was given up, where it was for this.
    pub fn fault(&self) -> Option<String> {
        let most = self.most.load(Ordering::Relaxed);
        let text = || format!("it sent more than {most} bytes without coming to the end of an answer");
        self.exceeded.load(Ordering::Acquire).then(text)
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        if self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.exceeded.store(true, Ordering::Release);
        Err(io::Error::other("an answer that is too long"))
    }
}

/// A connection to a server.
pub(super) struct Stream {
    wire: Wire,
    budget: Arc<Budget>,
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Over a connection that was made, with TLS where the settings say so. `name` is what the certificate must say.
    pub async fn over(tcp: TcpStream, tls: Option<&Tls>, name: &str, budget: Arc<Budget>) -> Result<Self, String> {
        let Some(tls) = tls else { return Ok(Self { wire: Wire::Plain(tcp), budget }) };
        let name = ServerName::try_from(name.to_owned()).map_err(|fault| format!("TLS: {name:?}: {fault}"))?;
        let config = config(tls).map_err(|fault| format!("TLS: {fault}"))?;
        let connected = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        let wire = Wire::Tls(Box::new(connected.map_err(|fault| format!("TLS: {fault}"))?));
        Ok(Self { wire, budget })
    }
}

/// What TLS is done with.
pub(super) fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&tls.ca) {
        roots.add(certificate.map_err(|fault| fault.to_string())?).map_err(|fault| fault.to_string())?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in tls.ca".to_owned());
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let Some((certificate, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|fault| format!("tls.cert: {fault}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|fault| format!("tls.key: {fault}"))?;
    builder.with_client_auth_cert(chain, key).map_err(|fault| format!("tls.cert and tls.key: {fault}"))
}

/// Whether a server speaks otherwise than it was spoken to: with TLS, or without. A sentence about it.
pub(super) async fn speaks_otherwise(address: SocketAddr, tls: bool) -> Option<&'static str> {
    // To the one a question that it answers, to the other the beginning of a handshake that it must refuse.
    let said: &[u8] = if tls { b"PING\r\n" } else { &[0x16, 3, 1, 0, 4, 1, 0, 0, 0] };
    let first = async {
        let mut tcp = TcpStream::connect(address).await.ok()?;
        tcp.write_all(said).await.ok()?;
        let mut byte = [0];
        tcp.read_exact(&mut byte).await.ok()?;
        Some(byte[0])
    };
    match (tls, timeout(PROBE_TIME, first).await.ok()??) {
        (true, b'+' | b'-') => Some("it answers without TLS: take tls out of [redis], or switch TLS on at the server"),
        (false, 0x15 | 0x16) => Some("it speaks TLS: set tls in [redis]"),
        _ => None,
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Wire::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        })?;
        Poll::Ready(self.budget.take(buf.filled().len() - before))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Wire::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Wire::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Wire::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
