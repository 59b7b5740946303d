//! etcd with its defaults, and a client of its own protocol: gRPC over HTTP/2, with the few messages written by hand.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;

use axum::http::{HeaderMap, Request};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use tokio::net::TcpStream;

use super::process::{self, Failed, Process, System, eventually, free_port};

/// Loads that share a connection, as with etcd's own client.
const SHARE: usize = 8;
/// How long a value is: about what slotkeeper's log entry says in its own words.
const VALUE: [u8; 64] = [b'v'; 64];

/// A connection and how many loads it has.
type Shared = (SendRequest<Bytes>, usize);

/// A group.
pub struct Group {
    processes: Vec<Process>,
    addresses: Vec<SocketAddr>,
    /// The newest connection to each member, and how many loads it has.
    connections: Vec<Mutex<Option<Shared>>>,
}

impl Group {
    /// Starts so many members and waits for a leader.
    pub async fn start(folder: &Path, binary: &Path, members: usize) -> Self {
        std::fs::create_dir_all(folder).expect("a directory");
        let ports: Vec<(u16, u16)> = (0..members).map(|_| (free_port(), free_port())).collect();
        let cluster: Vec<String> =
            ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://127.0.0.1:{peer}")).collect();
        let cluster = cluster.join(",");
        let start = |(n, (client, peer)): (usize, &(u16, u16))| {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let (name, dir) = (format!("m{n}"), folder.join(format!("m{n}")));
            let args = [
                ["--name", &name],
                ["--data-dir", dir.to_str().expect("UTF-8")],
                ["--listen-client-urls", &client],
                ["--advertise-client-urls", &client],
                ["--listen-peer-urls", &peer],
                ["--initial-advertise-peer-urls", &peer],
                ["--initial-cluster", &cluster],
                ["--log-level", "error"],
            ];
            let args = args.concat().into_iter().map(str::to_owned).collect();
            Process::start(binary, args, folder.join(format!("m{n}.log")))
        };
        let processes = ports.iter().enumerate().map(start).collect();
        let addresses = ports.iter().map(|(client, _)| SocketAddr::from(([127, 0, 0, 1], *client))).collect();
        let connections = ports.iter().map(|_| Mutex::new(None)).collect();
        let group = Self { processes, addresses, connections };
        group.leader().await;
        group
    }

    async fn channel(&self, member: usize) -> Result<SendRequest<Bytes>, Failed> {
        let stream = TcpStream::connect(self.addresses[member]).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// The member's own id and the one it takes for the leader.
    async fn status(&self, member: usize) -> Option<(u64, u64)> {
        let sender = self.channel(member).await.ok()?;
        let mut client = Client { sender, key: Bytes::new() };
        let status = client.call("/etcdserverpb.Maintenance/Status", &[]).await.ok()?;
        let header = field(&status, 1)?.bytes()?;
        Some((field(header, 2)?.number()?, field(&status, 4)?.number()?))
    }
}

impl System for Group {
    type Client = Client;

    fn members(&self) -> usize {
        self.processes.len()
    }

    async fn leader(&self) -> usize {
        eventually("leader of etcd", async || {
            for member in 0..self.members() {
                if let Some((own, leader)) = self.status(member).await
                    && own == leader
                {
                    return Some(member);
                }
            }
            None
        })
        .await
    }

    async fn connect(&self, member: usize, number: usize) -> Result<Client, Failed> {
        let shared = {
            let mut newest = self.connections[member].lock().expect("no panics");
            match newest.as_mut() {
                Some((sender, loads)) if *loads < SHARE => {
                    *loads += 1;
                    Some(sender.clone())
                }
                _ => None,
            }
        };
        let alive = match shared {
            Some(sender) => sender.ready().await.ok(),
            None => None,
        };
        let sender = if let Some(sender) = alive {
            sender
        } else {
            // None yet, enough loads on it, or one that the member did not survive.
            let sender = self.channel(member).await?;
            *self.connections[member].lock().expect("no panics") = Some((sender.clone(), 1));
            sender
        };
        Ok(Client { sender, key: Bytes::from(format!("key-{}", number % 64)) })
    }

    fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }
}

/// A load on one key.
pub struct Client {
    sender: SendRequest<Bytes>,
    key: Bytes,
}

impl Client {
    /// One unary call; the message of the answer.
    async fn call(&mut self, path: &str, message: &[u8]) -> Result<Vec<u8>, Failed> {
        let request = Request::post(format!("http://etcd{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a valid request");
        let mut body = BytesMut::with_capacity(5 + message.len());
        body.put_u8(0);
        body.put_u32(u32::try_from(message.len()).expect("small"));
        body.put_slice(message);
        let mut sender = self.sender.clone().ready().await?;
        let (response, mut stream) = sender.send_request(request, false)?;
        stream.send_data(body.freeze(), true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut received = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            received.extend_from_slice(&chunk);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let status = |headers: &HeaderMap| headers.get("grpc-status").map(|status| status.as_bytes() == b"0");
        if status(&trailers).or(status(&head.headers)) == Some(true) && received.len() >= 5 {
            Ok(received.split_off(5))
        } else {
            Err(Failed(format!("{trailers:?} {:?}", head.headers)))
        }
    }
}

impl process::Client for Client {
    async fn write(&mut self) -> Result<(), Failed> {
        let mut put = Vec::new();
        bytes_field(&mut put, 1, &self.key);
        bytes_field(&mut put, 2, &VALUE);
        self.call("/etcdserverpb.KV/Put", &put).await.map(drop)
    }

    async fn read(&mut self) -> Result<(), Failed> {
        let mut range = Vec::new();
        bytes_field(&mut range, 1, &self.key);
        self.call("/etcdserverpb.KV/Range", &range).await.map(drop)
    }
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> Option<u64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

fn bytes_field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.extend([number << 3 | 2, u8::try_from(bytes.len()).ok().filter(|len| *len < 128).expect("short")]);
    message.extend_from_slice(bytes);
}

/// A field of a message, out of those that are numbers and bytes.
fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Number(value),
            2 => {
                let (bytes, rest) = message.split_at_checked(usize::try_from(value).ok()?)?;
                message = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(field);
        }
    }
    None
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}
