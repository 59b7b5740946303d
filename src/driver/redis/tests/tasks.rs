//! The atomic protocols against two scripted nodes: what of them no real server does at will. They answer as Valkey 9.1.2
//! was seen to (`themselves.rs` has the real one), and as Redis 8.4 is documented to, which these tests have never seen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::fixture::{PATIENCE, key_in, topology_from};
use crate::domain::{Action, ActionId, ActionKind, ClusterName, DriverKind, PlanId, ShardId, SlotRange};
use crate::driver::redis::atomic::Dialect;
use crate::driver::redis::{Links, Redis, Settings};
use crate::driver::{Direction, Driver as _, DriverError, Job, Lease};

const SOURCE: &str = "00000000000000000000000000000000000000aa";
const TARGET: &str = "00000000000000000000000000000000000000bb";

/// One task as a node lists it: state, and its words.
#[derive(Clone, Debug)]
struct Listed {
    id: u64,
    slots: String,
    state: &'static str,
    words: &'static str,
    retries: u64,
}

/// What both nodes know.
struct World {
    dialect: Option<Dialect>,
    ports: [u16; 2],
    /// Slots 0-9 that the target owns.
    moved: BTreeSet<u16>,
    tasks: Vec<Listed>,
    /// Every `CLUSTER` command that changes something, and who was asked.
    asked: Vec<String>,
    /// What happens at every look at the tasks; the number of earlier looks.
    script: Box<Script>,
    looks: usize,
    refuses: Option<&'static str>,
}

type Script = dyn FnMut(&mut Vec<Listed>, &mut BTreeSet<u16>, usize) + Send;

type Shared = Arc<Mutex<World>>;

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array(parts: &[String]) -> String {
    format!("*{}\r\n{}", parts.len(), parts.concat())
}

/// `CLUSTER NODES` of one of the two.
fn nodes(world: &World, me: usize) -> String {
    let mut text = String::new();
    for (at, id) in [SOURCE, TARGET].into_iter().enumerate() {
        let myself = if at == me { "myself," } else { "" };
        write!(text, "{id} 127.0.0.1:{}@1 {myself}master - 0 0 {} connected", world.ports[at], at + 1).unwrap();
        if at == 0 {
            text.push_str(" 10-16383");
        }
        for slot in (0..10).filter(|slot| world.moved.contains(slot) == (at == 1)) {
            write!(text, " {slot}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn listed(world: &mut World, valkey: bool) -> String {
    let looks = world.looks;
    world.looks += 1;
    let mut tasks = std::mem::take(&mut world.tasks);
    (world.script)(&mut tasks, &mut world.moved, looks);
    world.tasks = tasks;
    let entry = |task: &Listed| {
        let number = |value: u64| format!(":{value}\r\n");
        let (id, times) = (format!("{:040x}", task.id), number(1_700_000_000 + task.id));
        let fields: Vec<(&str, String)> = if valkey {
            vec![
                ("name", bulk(&id)),
                ("operation", bulk("EXPORT")),
                ("slot_ranges", bulk(&task.slots)),
                ("target_node", bulk(TARGET)),
                ("source_node", bulk(SOURCE)),
                ("create_time", times.clone()),
                ("last_update_time", times),
                ("state", bulk(task.state)),
                ("message", bulk(task.words)),
            ]
        } else {
            vec![
                ("id", bulk(&id)),
                ("slots", bulk(&task.slots)),
                ("source", bulk(SOURCE)),
                ("dest", bulk(TARGET)),
                ("operation", bulk("import")),
                ("state", bulk(task.state)),
                ("last_error", bulk(task.words)),
                ("retries", number(task.retries)),
                ("create_time", times),
            ]
        };
        array(&fields.into_iter().flat_map(|(name, value)| [bulk(name), value]).collect::<Vec<_>>())
    };
    array(&world.tasks.iter().map(entry).collect::<Vec<_>>())
}

fn answer(world: &mut World, me: usize, words: &[String]) -> String {
    let upper: Vec<String> = words.iter().map(|word| word.to_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    match upper.as_slice() {
        ["CLUSTER", "NODES"] => bulk(&nodes(world, me)),
        ["ROLE"] => array(&[bulk("master"), ":0\r\n".to_owned(), array(&[])]),
        ["INFO", ..] => bulk("run_id:0123456789\r\n"),
        ["CLUSTER", "COUNTKEYSINSLOT", _] => ":0\r\n".to_owned(),
        // One key in each slot, of a million bytes.
        ["CLUSTER", "GETKEYSINSLOT", slot, _] => {
            array(&[bulk(std::str::from_utf8(&key_in(slot.parse().unwrap(), 0)).unwrap())])
        }
        ["MEMORY", "USAGE", ..] => ":1000000\r\n".to_owned(),
        ["CLUSTER", "HELP"] => {
            let line = match world.dialect {
                Some(Dialect::Valkey) => "MIGRATESLOTS SLOTSRANGE <start> <end> NODE <id>",
                Some(Dialect::Redis) => "MIGRATION <IMPORT <start> <end>>",
                None => "MEET <ip> <port>",
            };
            array(&["+CLUSTER <subcommand>\r\n".to_owned(), format!("+{line}\r\n")])
        }
        ["CLUSTER", "GETSLOTMIGRATIONS"] => listed(world, true),
        ["CLUSTER", "MIGRATION", "STATUS", "ALL"] => listed(world, false),
        ["CLUSTER", "MIGRATESLOTS" | "MIGRATION" | "SETSLOT" | "CANCELSLOTMIGRATIONS", ..] => {
            world.asked.push(format!("{}: {}", ["source", "target"][me], words.join(" ")));
            if let Some(error) = world.refuses {
                return format!("-{error}\r\n");
            }
            let id = u64::try_from(world.asked.len()).unwrap();
            let numbers: Vec<&String> = words.iter().filter(|word| word.parse::<u16>().is_ok()).collect();
            let ranges: Vec<String> = numbers.chunks_exact(2).map(|pair| format!("{}-{}", pair[0], pair[1])).collect();
            if upper[2] == "CANCEL" {
                world.tasks.iter_mut().for_each(|task| task.state = "canceled");
                return ":1\r\n".to_owned();
            }
            world.tasks.push(Listed { id, slots: ranges.join(" "), state: "connecting", words: "", retries: 0 });
            if me == 0 { "+OK\r\n".to_owned() } else { bulk(&format!("{id:040x}")) }
        }
        _ => "+OK\r\n".to_owned(),
    }
}

/// Reads commands and answers them until the connection ends.
fn serve(stream: TcpStream, world: &Shared, me: usize) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        let mut length = |reader: &mut BufReader<TcpStream>| -> std::io::Result<Option<usize>> {
            line.clear();
            reader.read_line(&mut line)?;
            Ok(line.get(1..).and_then(|digits| digits.trim_end().parse().ok()))
        };
        let Some(count) = length(&mut reader)? else { return Ok(()) };
        let mut words = Vec::new();
        for _ in 0..count {
            let Some(bytes) = length(&mut reader)? else { return Ok(()) };
            let mut argument = vec![0; bytes + 2];
            reader.read_exact(&mut argument)?;
            words.push(String::from_utf8_lossy(&argument[..bytes]).into_owned());
        }
        let reply = answer(&mut world.lock().unwrap(), me, &words);
        writer.write_all(reply.as_bytes())?;
    }
}

fn start(
    dialect: Option<Dialect>,
    script: impl FnMut(&mut Vec<Listed>, &mut BTreeSet<u16>, usize) + Send + 'static,
) -> Shared {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
    let world = World {
        dialect,
        ports,
        moved: BTreeSet::new(),
        tasks: Vec::new(),
        asked: Vec::new(),
        script: Box::new(script),
        looks: 0,
        refuses: None,
    };
    let world = Arc::new(Mutex::new(world));
    for (me, listener) in listeners.into_iter().enumerate() {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let world = Arc::clone(&world);
                thread::spawn(move || drop(serve(stream, &world, me)));
            }
        });
    }
    world
}

/// The driver asked to move the slots 0-3 and 5-9.
async fn moved(world: &Shared) -> Result<(), DriverError> {
    Redis::new(Arc::new(Links::new(Settings::default()))).execute(&job(world)).await
}

fn job(world: &Shared) -> Job {
    let topology = topology_from(&nodes(&world.lock().unwrap(), 0));
    let range = |text: &str| text.parse::<SlotRange>().unwrap();
    let kind = ActionKind::MoveSlots {
        from: ShardId::new(SOURCE).unwrap(),
        to: ShardId::new(TARGET).unwrap(),
        ranges: vec![range("0-3"), range("5-9")],
    };
    Job {
        cluster: ClusterName::new("main").unwrap(),
        plan: PlanId::new("p-1").unwrap(),
        action: Action { id: ActionId(1), kind },
        direction: Direction::Forward,
        topology: Arc::new(topology),
        limits: DriverKind::Redis.default_limits(),
        acks: Arc::default(),
        came_from: None,
        ending: false,
        lease: Lease::new(1, || true),
        waits: crate::driver::Waits::default(),
    }
}

fn all() -> BTreeSet<u16> {
    (0..10).filter(|slot| *slot != 4).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn valkey_is_asked_once_and_believed_when_the_slots_have_moved() {
    let world = start(Some(Dialect::Valkey), |tasks, moved, looks| match (tasks.last_mut(), looks) {
        (Some(task), 2) => task.state = "replicating",
        (Some(task), 3) => task.state = "failover-granted",
        // The source calls it a success when it has heard of the new owner.
        (Some(task), 5) => {
            task.state = "success";
            moved.extend(all());
        }
        _ => {}
    });
    moved(&world).await.unwrap();
    let asked = world.lock().unwrap().asked.clone();
    assert_eq!(asked, [format!("source: CLUSTER MIGRATESLOTS SLOTSRANGE 0 3 5 9 NODE {TARGET}")]);
    assert_eq!(world.lock().unwrap().moved, all());
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_84_is_asked_at_the_target() {
    let world = start(Some(Dialect::Redis), |tasks, moved, looks| match (tasks.last_mut(), looks) {
        // What failed it tries again by itself.
        (Some(task), 2) => (task.state, task.words, task.retries) = ("failed", "Unable to connect", 1),
        (Some(task), 3) => (task.state, task.words) = ("streaming-buffer", ""),
        (Some(task), 4) => {
            task.state = "completed";
            moved.extend(all());
        }
        _ => {}
    });
    moved(&world).await.unwrap();
    assert_eq!(world.lock().unwrap().asked, ["target: CLUSTER MIGRATION IMPORT 0 3 5 9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_finds_the_task_and_does_not_ask_again() {
    let world = start(Some(Dialect::Valkey), |tasks, moved, looks| {
        if looks == 2 {
            tasks[0].state = "success";
            moved.extend(all());
        }
    });
    let task = Listed { id: 7, slots: "0-3 5-9".to_owned(), state: "snapshotting", words: "", retries: 0 };
    world.lock().unwrap().tasks.push(task);
    moved(&world).await.unwrap();
    assert_eq!(world.lock().unwrap().asked, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_fails_again_and_again_is_given_up_with_the_server_s_words() {
    let world = start(Some(Dialect::Valkey), |tasks, _, _| {
        for task in tasks {
            (task.state, task.words) = ("failed", "Target node refused");
        }
    });
    let error = moved(&world).await.unwrap_err();
    let why = "the servers gave up 5 times: failed: Target node refused";
    assert_eq!(error, DriverError::Halt(why.to_owned()));
    assert_eq!(world.lock().unwrap().asked.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_84_tries_for_ever_is_cancelled() {
    let world = start(Some(Dialect::Redis), |tasks, _, _| {
        for task in tasks.iter_mut().filter(|task| task.state != "canceled") {
            (task.state, task.words, task.retries) = ("failed", "Target out of memory", task.retries + 1);
        }
    });
    let error = moved(&world).await.unwrap_err();
    assert_eq!(error, DriverError::Halt("the target tried 5 times: failed: Target out of memory".to_owned()));
    let asked = world.lock().unwrap().asked.clone();
    assert_eq!(
        asked,
        ["target: CLUSTER MIGRATION IMPORT 0 3 5 9", &format!("target: CLUSTER MIGRATION CANCEL ID {:040x}", 1)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_refuses_is_told_in_its_words() {
    let world = start(Some(Dialect::Valkey), |_, _, _| {});
    world.lock().unwrap().refuses = Some("ERR Slots are not served by this node.");
    let DriverError::Halt(why) = moved(&world).await.unwrap_err() else { panic!("given up") };
    assert!(why.ends_with("does not move the slots: ERR Slots are not served by this node."), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_arrived_is_for_a_person() {
    let world = start(Some(Dialect::Valkey), |tasks, moved, _| {
        moved.insert(0);
        for task in tasks {
            (task.state, task.words) = ("failed", "gone");
        }
    });
    assert!(matches!(moved(&world).await.unwrap_err(), DriverError::Open(_)));
    let asked = world.lock().unwrap().asked.clone();
    assert_eq!(asked.last().unwrap(), &format!("source: CLUSTER MIGRATESLOTS SLOTSRANGE 1 3 5 9 NODE {TARGET}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_turn_is_told_and_given_up_when_the_rollout_ends() {
    let world = start(Some(Dialect::Valkey), |tasks, moved, looks| {
        if let (Some(task), 2..) = (tasks.last_mut(), looks)
            && task.state != "success"
        {
            task.state = "success";
            moved.extend(all());
        }
    });
    let driver = Redis::new(Arc::new(Links::new(Settings::default())));
    let mut job = job(&world);
    job.limits.bytes_per_second = Some(10_000);
    driver.execute(&job).await.unwrap();
    // All of it goes back, and is to come again: nine million bytes are to be waited for first.
    world.lock().unwrap().moved.clear();
    let ends = async {
        job.waits.changed().await;
        let (_, told) = job.waits.first().unwrap();
        job.waits.end();
        told
    };
    let both = async { tokio::join!(driver.execute(&job), ends) };
    let (answer, told) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(words[4].parse::<u64>().is_ok_and(|seconds| (800..=900).contains(&seconds)), "{told}");
    assert!(told.ends_with("s: the plan allows 10000 bytes a second"), "{told}");
    let why = "the rollout was ended before its turn came (bytes_per_second)";
    assert_eq!(answer, Err(DriverError::Halt(why.to_owned())));
    assert_eq!(world.lock().unwrap().asked.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_on_is_told_long_before_it_is_given_up() {
    let world = start(Some(Dialect::Valkey), |_, _, _| {});
    let (job, driver) = (job(&world), Redis::new(Arc::new(Links::new(Settings::default()))));
    let told = async {
        tokio::select! {
            answer = driver.execute(&job) => panic!("{answer:?}"),
            () = job.waits.changed() => job.waits.first().unwrap().1,
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert!(told.contains("their task does not come on: connecting; do: "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_are_asked_in_the_classic_way() {
    let world = start(None, |_, _, _| {});
    let (sender, ends) = tokio::sync::oneshot::channel::<()>();
    let classic = tokio::spawn({
        let world = Arc::clone(&world);
        async move {
            tokio::select! {
                _ = moved(&world) => {}
                _ = ends => {}
            }
        }
    });
    let begun = |world: &Shared| {
        world.lock().unwrap().asked.iter().any(|line| line == &format!("target: CLUSTER SETSLOT 0 IMPORTING {SOURCE}"))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !begun(&world) {
        assert!(std::time::Instant::now() < deadline, "{:?}", world.lock().unwrap().asked);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    drop(sender);
    classic.await.unwrap();
}
