//! Why plans by load and by bytes move one slot and leave another, over HTTP and on the command line: the same sentences.

use super::*;

const FIRST: &str = "256f8fad71da49fc9bd8d75955ece32c6c0cd817";
const LAST: &str = "3ff99ba2b5e26e3974d67804ec06fc2106c86fea";

/// Slots 0 to 9 have a hundred times the operations and a hundredth of the bytes of any other.
fn statistics() -> String {
    let row = |slot| if slot < 10 { format!("{slot},1000,1\n") } else { format!("{slot},10,100\n") };
    "slot,ops,bytes\n".to_owned() + &(0..16384).map(row).collect::<String>()
}

/// What is said over HTTP, after the command line was found to say as much.
async fn because(member: &Member, plan: &str, what: &str, of: &str) -> Vec<String> {
    let path = format!("{CLUSTER}/plans/{plan}/explain?{what}={of}");
    let answer = member.get(&path).await.expect(200);
    assert_eq!((answer["plan"].as_str(), answer[what].to_string().trim_matches('"')), (Some(plan), of));
    let told = told(member, &["plan", "show", plan, &format!("--{what}"), of]);
    assert_eq!(told["because"], answer["because"]);
    let text = member.cli_ok(&["plan", "show", plan, &format!("--{what}"), of, "-o", "wide"]);
    let said: Vec<String> = serde_json::from_value(answer["because"].clone()).unwrap();
    for sentence in &said {
        assert!(text.contains(sentence), "{sentence:?} is not in\n{text}");
    }
    assert!(member.cli_ok(&["plan", "show", plan, &format!("--{what}"), of]).lines().all(|l| l.chars().count() <= 94));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_by_load_and_by_bytes_are_explained_in_the_same_words_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    let m = &member;
    import(m, "01-3m3r.nodes.txt").await;
    let stats = folder.path().join("stats.csv");
    std::fs::write(&stats, statistics()).unwrap();
    let stats = stats.to_str().unwrap();

    // 64510 operations, 9900 of them too many, of 173740: shares of 57913.3, and within 1 % 57335 to 58492.
    let plan = told(m, &["plan", "create", "--metric", "ops", "--tolerance", "1", "--stats", stats])["plan"].clone();
    let id = plan["id"].as_str().unwrap();
    let moved = plan["moves"][0]["ranges"][0][0].to_string();
    let said = because(m, id, "slot", &moved).await;
    assert!(said[0].starts_with(&format!("slot {moved} moves from {FIRST} to ")), "{said:#?}");
    let has = format!("{FIRST} has 64510 ops, 6018 above its band 57335..=58492, and gives ");
    assert!(said[1].starts_with(&has), "{said:#?}");
    assert!(said.contains(&format!("this slot and not another of {FIRST}: chosen by its ops")), "{said:#?}");
    let bound = said.last().unwrap();
    let slots = plan["summary"]["slots"].as_u64().unwrap();
    assert!(bound.starts_with(&format!("{slots} slots move in all; no plan for ")), "{said:#?}");
    let said = because(m, id, "shard", LAST).await;
    assert_eq!(said[0], format!("{LAST} has weight 1: its band is 57335..=58492 of 173740 ops"));
    let said = because(m, id, "slot", "16383").await;
    assert_eq!(said[0], format!("slot 16383 stays with {LAST}"));
    let curve = m.cli_ok(&["plan", "show", id, "--curve"]);
    assert!(curve.starts_with("CURVE   no fewer moves can bring every shard's ops so near its share\n"), "{curve}");
    let asked = curve.lines().find(|line| line.ends_with("<- asked")).unwrap();
    assert!(
        asked.trim_start().starts_with("1 %  ") && curve.contains(&format!("Plan {id} moves {slots} slots and")),
        "{curve}"
    );
    // The slot itself tells of the newest plan.
    let told_of = m.cli_ok(&["slot", "explain", &moved, "-o", "wide"]);
    assert!(told_of.contains(&format!("plan {id} is proposed:")) && told_of.contains(&has), "{told_of}");

    let args = ["plan", "create", "--add", "127.0.0.1:21003,name=new-1", "--objective", "bytes", "--stats", stats];
    let plan = told(m, &args)["plan"].clone();
    let id = plan["id"].as_str().unwrap();
    let said = because(m, id, "slot", "3").await;
    assert!(said[0].starts_with(&format!("slot 3 moves from {FIRST} to new-1 in action a-")), "{said:#?}");
    // 4096 slots, ten of them with one byte.
    let why = format!("this slot and not another of {FIRST}: chosen for few bytes (408610 move in all)");
    assert!(said.contains(&why), "{said:#?}");
    let said = because(m, id, "shard", "new-1").await;
    assert_eq!(said[0], "new-1 has weight 1: its share is 4096 of 16384 slots, its band 4096..=4096");
    assert!(said[1].ends_with("and takes 4096"), "{said:#?}");

    for query in ["", "?slot=16384", "?slot=3&shard=new-1", "?slot=03", "?slot=-1", "?slot=3&slot=4", "?shard="] {
        let answer = m.get(&format!("{CLUSTER}/plans/{id}/explain{query}")).await;
        assert!(matches!(answer.status.as_u16(), 400 | 422), "{query}: {} {}", answer.status, answer.body);
        assert!(answer.body["detail"].is_string(), "{query}: {}", answer.body);
    }
    for (path, missing) in [(format!("{id}/explain?shard=nobody"), "shard"), ("p-0/explain?slot=1".to_owned(), "plan")]
    {
        let answer = m.get(&format!("{CLUSTER}/plans/{path}")).await.expect(404);
        assert!(answer["detail"].as_str().unwrap().contains(missing), "{answer}");
    }
    let both = m.cli(&["plan", "show", id, "--slot", "1", "--shard", "new-1"]);
    assert_eq!(both.status.code(), Some(2));
    assert_eq!(m.cli(&["plan", "show", id, "--slot", "16384"]).status.code(), Some(2));
    assert_eq!(m.cli(&["plan", "show", id, "--shard", "nobody"]).status.code(), Some(5));
}
