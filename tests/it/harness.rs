//! Starts the real binary on free loopback ports, talks to it over HTTP and the command line, kills it with -9 and starts
//! it again. Everything started is ended when it goes out of scope.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_slotkeeper");

/// How long anything may take before a test fails; generous, since two cores run everything at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers the idempotency keys of this run.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// A loopback port that was free a moment ago, and that no connection takes for its own end while a member is down: it
/// is below the range from which the system does so.
pub fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 22_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Runs at the same time start at different places.
    let start = std::process::id() % u32::from(COUNT);
    loop {
        let turn = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((start * 97 + turn) % u32::from(COUNT)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The text of a real `CLUSTER NODES` output.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/redis").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One controller process and its folder.
pub struct Member {
    child: Option<Child>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    /// Base URL of its HTTP interface.
    pub url: String,
    /// Bearer token sent with every request; empty for none.
    pub token: String,
}

impl Member {
    /// `slotkeeper dev` in this folder: no tokens.
    pub fn dev(folder: &Path) -> Self {
        Self::dev_with(folder, &[])
    }

    /// The same with more arguments.
    pub fn dev_with(folder: &Path, more: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let dir = folder.join("dev");
        let args = [&["dev", "--data-dir", dir.to_str().unwrap(), "--listen", &listen], more].concat();
        let args = args.into_iter().map(str::to_owned).collect();
        Self::spawn(args, Vec::new(), folder.join("dev.log"), format!("http://{listen}"))
    }

    /// `slotkeeper serve` over this data directory: alone, no tokens, with arguments and an environment of one's own.
    pub fn serve(dir: &Path, more: &[&str], env: Vec<(String, String)>) -> Self {
        Self::serve_on(free_port(), dir, more, env)
    }

    /// The same at this port.
    pub fn serve_on(port: u16, dir: &Path, more: &[&str], env: Vec<(String, String)>) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let dir_text = dir.to_str().unwrap();
        let args = [&["serve", "--insecure-dev", "--data-dir", dir_text, "--listen", &listen], more].concat();
        let args = args.into_iter().map(str::to_owned).collect();
        let name = dir.file_name().unwrap().to_str().unwrap();
        Self::spawn(args, env, dir.with_file_name(format!("{name}.log")), format!("http://{listen}"))
    }

    /// `slotkeeper serve` in this folder with these arguments besides; with tokens.
    pub fn serve_with(folder: &Path, name: &str, args: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let dir = folder.join(name);
        let first = ["serve", "--data-dir", dir.to_str().unwrap(), "--listen", &listen];
        let args = first.iter().chain(args).map(ToString::to_string).collect();
        Self::spawn(args, Vec::new(), folder.join(format!("{name}.log")), format!("http://{listen}"))
    }

    /// Gives it one more argument at its next start.
    pub fn add_args(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(ToString::to_string));
    }

    fn spawn(args: Vec<String>, env: Vec<(String, String)>, log: PathBuf, url: String) -> Self {
        let mut member = Self { child: None, args, env, log, url, token: String::new() };
        member.start();
        member
    }

    /// Starts the process (again) with the same arguments and folder.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(BINARY)
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// SIGKILL, at once.
    pub fn kill_9(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal such as `STOP` to the process.
    pub fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -s {name}: {sent}");
    }

    /// SIGTERM; returns the exit status.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        let mut child = self.child.take().expect("it runs");
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it did not end; log:\n{}", self.log_text());
            std::thread::yield_now();
        }
    }

    /// The exit code, once the process has ended by itself.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.as_mut()?.try_wait().unwrap()?;
        self.child = None;
        Some(status.code().expect("it ended by itself"))
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        PathBuf::from(self.argument("--data-dir"))
    }

    /// What follows this flag.
    pub fn argument(&self, flag: &str) -> String {
        let position = self.args.iter().position(|arg| arg == flag).unwrap();
        self.args[position + 1].clone()
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// One request; the body is sent as JSON unless it is a string (then as text).
    pub async fn request(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Result<Answer> {
        self.request_with(method, path, body, &[]).await
    }

    pub async fn request_with(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> reqwest::Result<Answer> {
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let mut request = client.request(method, format!("{}{path}", self.url));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request = match body {
            None => request,
            Some(Value::String(text)) => request.header("content-type", "text/plain").body(text),
            Some(json) => request.json(&json),
        };
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, headers, body })
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path, None).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Retried like a careful client does: a 503 says that the outcome is unknown or that no leader is there, and the
    /// idempotency key makes asking again safe.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let key = format!("test-{}-{}", std::process::id(), KEYS.fetch_add(1, Ordering::Relaxed));
        let headers = [("idempotency-key", key.as_str())];
        eventually(&format!("an answer to POST {path}"), || async {
            let answer = self.request_with(Method::POST, path, Some(body.clone()), &headers).await;
            let answer = answer.unwrap_or_else(|error| panic!("POST {path}: {error}"));
            (answer.status != StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
        })
        .await
    }

    /// Waits until the member is ready and its group is in use: the first cluster is there.
    pub async fn ready(&self) {
        eventually("ready", || async {
            let ready = self.request(Method::GET, "/readyz", None).await.ok()?;
            let cluster = self.request(Method::GET, "/v1/clusters/default", None).await.ok()?;
            (ready.status.is_success() && cluster.status.is_success()).then_some(())
        })
        .await;
    }

    /// The command line against this member.
    pub fn cli(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The same, still to be started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).args(["--endpoint", &self.url]).stdin(Stdio::null());
        let token_file = self.log.with_extension("token");
        if !self.token.is_empty() {
            std::fs::write(&token_file, &self.token).unwrap();
            Command::new("chmod").arg("600").arg(&token_file).status().unwrap();
            command.arg("--token-file").arg(&token_file);
        }
        command
    }

    /// The command line, expected to succeed; its standard output.
    pub fn cli_ok(&self, args: &[&str]) -> String {
        let output = self.cli(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
        out.into_owned()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.url, self.log_text());
        }
    }
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self.body
    }
}

/// Members that form one group.
pub struct Group {
    pub members: Vec<Member>,
}

/// What differs from group to group. The first member is the first entry of every list.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Ports of the peer listeners.
    pub peers: Vec<u16>,
    /// Ports at which the members know each other; the peer listeners' own unless something stands in between.
    pub advertised: Vec<u16>,
    /// Environment of every process; `{id}` in a value is the member's.
    pub env: Vec<(String, String)>,
}

impl Setting {
    /// So many members that reach each other directly.
    pub fn direct(count: usize) -> Self {
        let peers: Vec<u16> = (0..count).map(|_| free_port()).collect();
        Self { advertised: peers.clone(), peers, env: Vec::new() }
    }
}

impl Group {
    /// Starts three members in the order given and takes the first admin token.
    pub async fn start(folder: &Path, order: [usize; 3]) -> Self {
        Self::start_with(folder, &order, &Setting::direct(3)).await
    }

    /// Starts members in the order given and takes the first admin token.
    pub async fn start_with(folder: &Path, order: &[usize], setting: &Setting) -> Self {
        let list = setting.advertised.iter().enumerate();
        let list: Vec<String> = list.map(|(index, peer)| format!("{}=127.0.0.1:{peer}", index + 1)).collect();
        let token_file = folder.join("admin.token");
        let mut members: Vec<Option<Member>> = order.iter().map(|_| None).collect();
        for &index in order {
            let (listen, peer) = (free_port(), setting.peers[index]);
            let id = (index + 1).to_string();
            let dir = folder.join(format!("member-{id}"));
            let (listen, peer) = (format!("127.0.0.1:{listen}"), format!("127.0.0.1:{peer}"));
            let args = [
                ["serve", "--data-dir"],
                [dir.to_str().unwrap(), "--listen"],
                [&listen, "--peer-listen"],
                [&peer, "--member-id"],
                [&id, "--initial-members"],
                [&list.join(","), "--admin-token-file"],
            ];
            let mut args: Vec<String> = args.concat().into_iter().map(str::to_owned).collect();
            args.push(token_file.to_str().unwrap().to_owned());
            let log = folder.join(format!("member-{id}.log"));
            let env = setting.env.iter().map(|(name, value)| (name.clone(), value.replace("{id}", &id))).collect();
            members[index] = Some(Member::spawn(args, env, log, format!("http://{listen}")));
        }
        let mut group = Self { members: members.into_iter().map(Option::unwrap).collect() };
        let token = eventually("the first admin token", || async {
            std::fs::read_to_string(&token_file).ok().filter(|token| !token.trim().is_empty())
        })
        .await;
        for member in &mut group.members {
            token.trim().clone_into(&mut member.token);
        }
        for member in &group.members {
            member.ready().await;
        }
        group
    }

    /// Index of the member that leads, by what the running members say.
    pub async fn leader(&self) -> usize {
        eventually("a leader", || async {
            for (index, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_running()) {
                let Ok(answer) = member.request(Method::GET, "/v1/status", None).await else {
                    continue;
                };
                if answer.body["role"] == "leader" {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}

/// Asks again and again until there is an answer; fails after [`PATIENCE`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = tokio::time::interval(Duration::from_millis(25));
    loop {
        pause.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
    }
}
