//! A connection that speaks RESP2 and hides nothing: what was sent, what was answered, and when neither is known. Own
//! code, since what is proved is about answers that never came, and a driver's own library must not vouch for itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How servers let somebody in.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub user: Option<String>,
    pub password: Option<String>,
    pub tls: bool,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Number(i64),
    Bulk(Vec<u8>),
    Nothing,
    Array(Vec<Reply>),
}

impl Reply {
    /// Bytes as text; an error for any other answer.
    pub fn text(self) -> String {
        match self {
            Self::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Self::Simple(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn number(self) -> i64 {
        match self {
            Self::Number(number) => number,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub fn array(self) -> Vec<Reply> {
        match self {
            Self::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("not a string of bytes: {other:?}"),
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

/// A file of the certificates that the tests use.
pub fn certificate(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

fn client_config() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate("ca.pem")).unwrap()).unwrap();
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

impl Connection {
    /// Connects and authenticates. An answer has to come within `timeout`.
    pub fn open(address: SocketAddr, access: &Access, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let stream: Box<dyn Stream> = if access.tls {
            let name = ServerName::IpAddress(address.ip().into());
            let connection = ClientConnection::new(Arc::new(client_config()), name).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, stream))
        } else {
            Box::new(stream)
        };
        let mut connection = Self { stream: BufReader::new(stream) };
        let auth: Option<Vec<&[u8]>> = match (&access.user, &access.password) {
            (Some(user), Some(password)) => Some(vec![b"AUTH", user.as_bytes(), password.as_bytes()]),
            (None, Some(password)) => Some(vec![b"AUTH", password.as_bytes()]),
            _ => None,
        };
        if let Some(auth) = auth {
            match connection.call(&auth)? {
                Reply::Simple(_) => {}
                // A server that is starting: like one that does not listen yet.
                answer => return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{answer:?}"))),
            }
        }
        Ok(connection)
    }

    /// One command and its answer.
    pub fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        self.send(&[command])?;
        self.receive()
    }

    /// Several commands at once; as many answers are to be received.
    pub fn send<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for argument in *command {
                let argument = argument.as_ref();
                write!(bytes, "${}\r\n", argument.len())?;
                bytes.extend_from_slice(argument);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.stream.get_mut().flush()
    }

    /// The next answer.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(number()?),
            "$" | "*" if number()? < 0 => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; usize::try_from(number()?).expect("checked above") + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array((0..number()?).map(|_| self.receive()).collect::<io::Result<_>>()?),
            _ => return Err(malformed(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.stream.read_until(b'\n', &mut bytes)?;
        if !bytes.ends_with(b"\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(bytes.len() - 2);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP: {line}"))
}
