//! Disks that fail: syncs that say no, and no space left. The process ends with the reason, retries nothing, and starts
//! again with everything that it acknowledged. The failures come from a library compiled here and loaded before the C
//! library (`disk_shim.c`), and, where a file system may be mounted, from one that is really full.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// A member whose disk does what a file says.
struct Failing {
    member: Member,
    file: PathBuf,
    dir: PathBuf,
}

/// The library, in the folder.
pub(super) fn shim(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/e2e/disk_shim.c");
    let library = folder.join("disk_shim.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

impl Failing {
    async fn start(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        let (library, file, dir) = (shim(&folder), folder.join("fault"), folder.join("member"));
        let env = [("LD_PRELOAD", &library), ("DISK_SHIM_FILE", &file), ("DISK_SHIM_UNDER", &dir)];
        let env = env.map(|(name, path)| (name.to_owned(), path.display().to_string())).to_vec();
        let member = Member::serve(&dir, &[], env);
        member.ready().await;
        Self { member, file, dir }
    }

    fn fail(&self, how: &str) {
        std::fs::write(&self.file, how).unwrap();
    }

    /// Creates clusters until one is not acknowledged; how many were.
    async fn create_until_refused(&self, from: usize, most: usize) -> usize {
        for number in from..most {
            if !create(&self.member, number).await {
                return number;
            }
        }
        most
    }
}

async fn create(member: &Member, number: usize) -> bool {
    let body = json!({"name": format!("c-{number}"), "driver": "flip"});
    let answer = member.request(Method::POST, "/v1/clusters", Some(body)).await;
    answer.is_ok_and(|answer| answer.status == 201)
}

async fn ended(member: &mut Member) -> i32 {
    let deadline = std::time::Instant::now() + crate::harness::PATIENCE;
    loop {
        if let Some(code) = member.ended() {
            return code;
        }
        assert!(std::time::Instant::now() < deadline, "it goes on; log:\n{}", member.log_text());
        tokio::task::yield_now().await;
    }
}

async fn all_there(member: &Member, count: usize) {
    for number in 0..count {
        member.get(&format!("/v1/clusters/c-{number}")).await.expect(200);
    }
    audit_is_whole(member).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_fails_ends_the_process_at_once_and_nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Failing::start(folder.path()).await;
    assert_eq!(disk.create_until_refused(0, 20).await, 20);
    disk.fail("eio");
    assert!(!create(&disk.member, 20).await, "what is not on the disk is not acknowledged");
    assert_eq!(ended(&mut disk.member).await, 10);
    let log = disk.member.log_text();
    assert!(log.contains("this member cannot go on: the store cannot be written: disk I/O error"), "{log}");
    let calls = std::fs::read_to_string(disk.file.with_extension("calls")).unwrap();
    assert_eq!(calls, "d", "a commit waits for its own bytes (fdatasync), and a failed sync is not tried again");

    // With the disk still failing it does not come up as if nothing were wrong.
    disk.member.start();
    assert_ne!(ended(&mut disk.member).await, 0);
    disk.fail("");
    disk.member.start();
    disk.member.ready().await;
    all_there(&disk.member, 20).await;
    assert!(create(&disk.member, 21).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_whose_sync_fails_ends_the_process_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Failing::start(folder.path()).await;
    assert_eq!(disk.create_until_refused(0, 3).await, 3);
    disk.fail("eio");
    drop(disk.member.request(Method::POST, "/v1/snapshots", None).await);
    assert_eq!(ended(&mut disk.member).await, 10);
    disk.fail("");
    disk.member.start();
    disk.member.ready().await;
    all_there(&disk.member, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_process_with_the_reason_and_it_starts_again_when_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Failing::start(folder.path()).await;
    assert_eq!(disk.create_until_refused(0, 10).await, 10);
    disk.fail("full");
    assert!(!create(&disk.member, 10).await);
    assert_eq!(ended(&mut disk.member).await, 10);
    let log = disk.member.log_text();
    assert!(log.contains("the store cannot be written: database or disk is full"), "{log}");
    disk.fail("");
    disk.member.start();
    disk.member.ready().await;
    all_there(&disk.member, 10).await;
    assert!(create(&disk.member, 10).await);
    assert!(disk.dir.join("slotkeeper.db").exists());
}

/// A small file system, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_is_really_full_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(&folder.path().join("small")) else {
        // Written past the capture of the test harness: what was not tested must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no file system may be mounted here; the full disk is tested with the shim alone"
        );
        return;
    };
    let mut member = Member::serve(&small.0.join("member"), &[], Vec::new());
    member.ready().await;
    for number in 0..5 {
        assert!(create(&member, number).await);
    }
    let filler = small.0.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    // What the write-ahead log has room for already goes well; then nothing does.
    let mut acknowledged = 5;
    while create(&member, acknowledged).await {
        acknowledged += 1;
        assert!(acknowledged < 250, "a full disk takes no more");
    }
    assert_eq!(ended(&mut member).await, 10);
    assert!(member.log_text().contains("database or disk is full"), "{}", member.log_text());
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    member.start();
    member.ready().await;
    all_there(&member, acknowledged).await;
    drop(member);
}
