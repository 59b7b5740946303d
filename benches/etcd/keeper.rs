//! slotkeeper with its defaults, and a client as plain as can be: HTTP/1.1 with keep-alive, written by hand.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{self, Failed, Process, System, eventually, free_port};

const BINARY: &str = env!("CARGO_BIN_EXE_slotkeeper");
/// Shards of the cluster; as many as there are writers, since each has its own.
const SHARDS: usize = 64;

/// A group.
pub struct Group {
    processes: Vec<Process>,
    addresses: Vec<SocketAddr>,
    token: String,
}

impl Group {
    /// Starts so many members with a cluster of 64 shards.
    pub async fn start(folder: &Path, members: usize, flags: &[&str]) -> Self {
        std::fs::create_dir_all(folder).expect("a directory");
        let ports: Vec<(u16, u16)> = (0..members).map(|_| (free_port(), free_port())).collect();
        let list: Vec<String> =
            ports.iter().enumerate().map(|(n, (_, peer))| format!("{}=127.0.0.1:{peer}", n + 1)).collect();
        let (list, token_file) = (list.join(","), folder.join("token"));
        let start = |(n, (client, peer)): (usize, &(u16, u16))| {
            let (listen, peer, id) = (format!("127.0.0.1:{client}"), format!("127.0.0.1:{peer}"), (n + 1).to_string());
            let dir = folder.join(format!("m{id}"));
            let mut args = vec!["serve", "--data-dir", dir.to_str().expect("UTF-8"), "--listen", &listen];
            args.extend(["--admin-token-file", token_file.to_str().expect("UTF-8")]);
            if members > 1 {
                args.extend(["--peer-listen", &peer, "--member-id", &id, "--initial-members", &list]);
            }
            args.extend(flags);
            let args = args.into_iter().map(str::to_owned).collect();
            Process::start(Path::new(BINARY), args, folder.join(format!("m{id}.log")))
        };
        let processes = ports.iter().enumerate().map(start).collect();
        let addresses = ports.iter().map(|(client, _)| SocketAddr::from(([127, 0, 0, 1], *client))).collect();
        let token = eventually("admin token", async || {
            std::fs::read_to_string(&token_file).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        })
        .await;
        let group = Self { processes, addresses, token };
        let leader = group.leader().await;
        eventually("import", async || {
            let mut client = group.connect(leader, 0).await.ok()?;
            let path = "/v1/clusters/default/import";
            let answered = client.call("POST", path, "content-type: text/plain\r\n", &nodes_text()).await;
            answered.ok().filter(|status| *status == 200)
        })
        .await;
        group
    }
}

impl System for Group {
    type Client = Client;

    fn members(&self) -> usize {
        self.processes.len()
    }

    async fn leader(&self) -> usize {
        eventually("leader of slotkeeper", async || {
            for member in 0..self.members() {
                let Ok(mut client) = self.connect(member, 0).await else { continue };
                let Ok(200) = client.call("GET", "/v1/status", "", "").await else { continue };
                if memmem::find(client.body(), b"\"role\":\"leader\"").is_some() {
                    return Some(member);
                }
            }
            None
        })
        .await
    }

    async fn connect(&self, member: usize, number: usize) -> Result<Client, Failed> {
        let address = self.addresses[member];
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let shard = format!("/v1/clusters/default/shards/{}", shard(number % SHARDS));
        let common = format!("host: {address}\r\nauthorization: Bearer {}\r\n", self.token);
        let (buffer, filled, head) = (vec![0; 1 << 16], 0, 0);
        Ok(Client { stream, common, shard, revision: None, turn: 0, made: None, buffer, filled, head })
    }

    fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }
}

/// What the import calls it: the id of its primary.
fn shard(n: usize) -> String {
    format!("{n:040x}")
}

/// A cluster of equal shards as `CLUSTER NODES` tells it.
fn nodes_text() -> String {
    (0..SHARDS).fold(String::new(), |mut text, n| {
        let (first, last) = (n * 16384 / SHARDS, (n + 1) * 16384 / SHARDS - 1);
        let flags = if n == 0 { "myself,master" } else { "master" };
        writeln!(text, "{} 10.0.0.{}:7000@17000 {flags} - 0 0 1 connected {first}-{last}", shard(n), n + 1)
            .expect("a String takes every write");
        text
    })
}

/// A load on one shard.
pub struct Client {
    stream: TcpStream,
    common: String,
    shard: String,
    /// What the shard's next change has to name.
    revision: Option<String>,
    turn: u64,
    /// The token that is to be revoked next.
    made: Option<String>,
    buffer: Vec<u8>,
    filled: usize,
    head: usize,
}

impl Client {
    /// One request; the status of its answer.
    async fn call(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Result<u16, Failed> {
        let (common, length) = (&self.common, body.len());
        let request = format!("{method} {path} HTTP/1.1\r\n{common}{headers}content-length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).await?;
        let mut whole = usize::MAX;
        self.filled = 0;
        while self.filled < whole {
            let read = self.stream.read(&mut self.buffer[self.filled..]).await?;
            if read == 0 {
                return Err(Failed("the connection ended".to_owned()));
            }
            self.filled += read;
            if whole == usize::MAX
                && let Some(end) = memmem::find(&self.buffer[..self.filled], b"\r\n\r\n")
            {
                self.head = end + 4;
                whole = self.head + self.header("content-length: ").and_then(|text| text.parse().ok()).unwrap_or(0);
            }
        }
        let status = std::str::from_utf8(&self.buffer[9..12])?;
        Ok(status.parse()?)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let head = &self.buffer[..self.head];
        let value = &head[memmem::find(head, name.as_bytes())? + name.len()..];
        std::str::from_utf8(&value[..memmem::find(value, b"\r\n")?]).ok()
    }

    fn body(&self) -> &[u8] {
        &self.buffer[self.head..self.filled]
    }

    fn refused(&self, status: u16) -> Failed {
        Failed(format!("{status} {}", String::from_utf8_lossy(self.body())))
    }
}

impl process::Client for Client {
    /// Creates a token or, next time, revokes it.
    async fn write(&mut self) -> Result<(), Failed> {
        if let Some(token) = self.made.take() {
            return match self.call("DELETE", &format!("/v1/tokens/{token}"), "", "").await? {
                200..300 => Ok(()),
                status => Err(self.refused(status)),
            };
        }
        let body = "{\"name\":\"bench\",\"role\":\"viewer\"}";
        match self.call("POST", "/v1/tokens", "content-type: application/json\r\n", body).await? {
            200..300 => {
                let id = b"\"id\":\"";
                let id = memmem::find(self.body(), id).map(|at| &self.body()[at + id.len()..]);
                self.made =
                    id.and_then(|id| Some(String::from_utf8_lossy(&id[..memmem::find(id, b"\"")?]).into_owned()));
                Ok(())
            }
            status => Err(self.refused(status)),
        }
    }

    async fn settle(&mut self) -> Result<(), Failed> {
        if self.made.is_some() { self.write().await } else { Ok(()) }
    }

    /// Sets the shard's upper bound, to another value than before.
    async fn change(&mut self) -> Result<(), Failed> {
        let path = self.shard.clone();
        if self.revision.is_none() {
            let status = self.call("GET", &path, "", "").await?;
            self.revision = self.header("etag: ").filter(|_| status == 200).map(str::to_owned);
        }
        let Some(revision) = self.revision.take() else { return Err(self.refused(0)) };
        self.turn += 1;
        let body = format!("{{\"max_slots\":{},\"propose\":false}}", 9000 + self.turn % 1000);
        let headers = format!("if-match: {revision}\r\ncontent-type: application/json\r\n");
        match self.call("PATCH", &path, &headers, &body).await? {
            200 => {
                self.revision = self.header("etag: ").map(str::to_owned);
                Ok(())
            }
            status => Err(self.refused(status)),
        }
    }

    async fn read(&mut self) -> Result<(), Failed> {
        match self.call("GET", "/v1/clusters/default/slots/4242?consistency=linearizable", "", "").await? {
            200 => Ok(()),
            status => Err(self.refused(status)),
        }
    }
}
