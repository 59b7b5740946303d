//! `slotkeeper member`: who belongs to the raft group.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::{Exit, Fault};
use super::prompt::confirm;
use super::reason::ReasonArgs;
use super::settings::{Settings, duration};
use super::table::{left, render, right};
use crate::domain::MemberId;
use crate::wire::{MemberAdd, MemberAdded, MemberStanding, MemberView};

/// Pause between two looks at a new member.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A member that was heard of within this time answers.
const HEARD_WITHIN_MS: u64 = 2_000;
/// Entries a learner may lack when it is given a vote.
const CAUGHT_UP: u64 = 1_000;

/// Members of the raft group.
#[derive(Subcommand, Clone, Debug)]
pub enum MemberCommand {
    /// List members and how far each is
    List,
    /// Make a number and a token for a new member, and say how to start it
    Add(AddArgs),
    /// Give a learner that has caught up a vote
    Promote(OneArgs),
    /// Take a member out for good, dead or alive
    Remove(RemoveArgs),
    /// Hand the lead to a voter
    Transfer(OneArgs),
}

/// A new member.
#[derive(Args, Clone, Debug)]
pub struct AddArgs {
    /// Where the other members will reach it
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_address: String,
    /// Wait for it to join and to catch up, and give it a vote
    #[arg(long)]
    pub voter: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m", requires = "voter")]
    pub wait: Duration,
    /// Write its join token to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A member.
#[derive(Args, Clone, Debug)]
pub struct OneArgs {
    /// Its number
    #[arg(value_name = "MEMBER")]
    pub member: MemberId,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A member to be removed.
#[derive(Args, Clone, Debug)]
pub struct RemoveArgs {
    /// Its number
    #[arg(value_name = "MEMBER")]
    pub member: MemberId,
    /// Also when no majority of those that stay answers now: the group takes no writes until one does
    #[arg(long)]
    pub force: bool,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// Carries out one command about members.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: MemberCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    match command {
        MemberCommand::List => {
            let members = api.call(api.client.members())?;
            show(&members, settings)
        }
        MemberCommand::Add(args) => add(&args, &api, settings),
        MemberCommand::Promote(args) => {
            let members = api.call(api.client.promote_member(args.member, args.reason.text()?))?;
            done(&format!("Member {} has a vote.", args.member), &members, settings)
        }
        MemberCommand::Remove(args) => remove(&args, &api, settings),
        MemberCommand::Transfer(args) => {
            let members = api.call(api.client.transfer_leadership(args.member, args.reason.text()?))?;
            done(&format!("Member {} leads.", args.member), &members, settings)
        }
    }
}

fn remove(args: &RemoveArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    if args.force
        && let Some(consequence) = consequence(&api.call(api.client.members())?, args.member)
    {
        settings.output.note(&format!("warning: {consequence}"));
    }
    confirm(settings, &format!("Take member {} out of the group for good?", args.member))?;
    let members = api.call(api.client.remove_member(args.member, args.force, args.reason.text()?))?;
    if args.force && members.iter().any(|member| member.id == args.member) {
        let consequence = consequence(&members, args.member);
        let why = consequence.unwrap_or_else(|| format!("member {} leaves when the others have agreed", args.member));
        return Err(Fault::Exit(Exit::Unavailable, format!("begun, and not done: {why}")));
    }
    done(&format!("Member {} is out of the group.", args.member), &members, settings)
}

/// What a removal by force comes to when no majority of the voters that stay answers.
fn consequence(members: &[MemberView], leaving: MemberId) -> Option<String> {
    let voters = members.iter().filter(|member| member.standing == MemberStanding::Voter);
    let stay: Vec<&MemberView> = voters.filter(|member| member.id != leaving).collect();
    let answers =
        |member: &&&MemberView| member.leader || member.last_contact_ms.is_some_and(|ms| ms < HEARD_WITHIN_MS);
    let (answering, needed) = (stay.iter().filter(answers).count(), stay.len() / 2 + 1);
    (answering < needed && !stay.is_empty()).then(|| {
        format!(
            "{answering} of the {} voters that stay answers, {needed} are needed: until they do the group takes no writes, \
             and member {leaving} leaves then",
            stay.len()
        )
    })
}

fn done(sentence: &str, members: &[MemberView], settings: &Settings) -> Result<(), Fault> {
    if settings.output.is_for_people() { settings.output.text(sentence) } else { settings.output.json_list(members) }
}

fn show(members: &[MemberView], settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json_list(members);
    }
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let row = |member: &MemberView| {
        vec![
            member.id.to_string(),
            member.peer_address.clone(),
            if member.leader { "leader" } else { member.standing.as_str() }.to_owned(),
            number(member.lag),
            member.last_contact_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms ago")),
        ]
    };
    let columns = [right("MEMBER"), left("PEER ADDRESS"), left("ROLE"), right("BEHIND"), right("LAST CONTACT")];
    settings.output.text(&render(&columns, &members.iter().map(row).collect::<Vec<_>>()))
}

fn add(args: &AddArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let body = MemberAdd { peer_address: args.peer_address.clone(), reason: args.reason.text()? };
    let added = api.call(api.client.add_member(&body))?;
    if let Some(file) = &args.join_token_file {
        write_token(file, &added.token).map_err(|error| Fault::from(error).about(file.display()))?;
    }
    let output = settings.output;
    if output.is_for_people() {
        output.note(&how_to_start(&added, args, &api.client.endpoints()[0]));
        if args.join_token_file.is_none() {
            output.text(&added.token)?;
        }
    } else {
        output.json(&added)?;
    }
    if args.voter { make_voter(args, &added, api, settings) } else { Ok(()) }
}

fn how_to_start(added: &MemberAdded, args: &AddArgs, endpoint: &str) -> String {
    let file = args.join_token_file.as_deref().unwrap_or(Path::new("join.token")).display().to_string();
    let hint = match args.join_token_file {
        Some(_) => String::new(),
        None => format!("with the token below (it is not shown again) in a file {file}, "),
    };
    format!(
        "Member {} may join until {}; on its machine, {hint}run\n  slotkeeper serve --data-dir DIR --listen HOST:PORT \
         --peer-listen {} \\\n    --join {endpoint} --join-token-file {file}",
        added.member_id, added.expires_at, args.peer_address
    )
}

fn write_token(file: &Path, token: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    writeln!(file, "{token}")
}

/// Waits until the member has joined and caught up, and gives it a vote.
fn make_voter(args: &AddArgs, added: &MemberAdded, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let (id, deadline) = (added.member_id, Instant::now() + args.wait);
    let mut said = String::new();
    loop {
        let members = api.call(api.client.members())?;
        let member = members.iter().find(|member| member.id == id);
        let (ready, now) = match member {
            None => return Err(Fault::conflict(format!("member {id} was removed meanwhile"))),
            Some(MemberView { standing: MemberStanding::Voter, .. }) => break,
            Some(MemberView { standing: MemberStanding::Invited, .. }) => (false, "has not joined yet".to_owned()),
            Some(MemberView { lag: Some(lag), last_contact_ms: Some(ms), .. }) if *ms < HEARD_WITHIN_MS => {
                (*lag <= CAUGHT_UP, format!("is a learner, {lag} entries behind"))
            }
            Some(_) => (false, "is a learner that does not answer yet".to_owned()),
        };
        if now != said {
            settings.output.note(&format!("member {id} {now}"));
            said = now;
        }
        if ready {
            match api.call(api.client.promote_member(id, args.reason.text()?)) {
                Ok(_) => break,
                Err(Fault::Exit(Exit::Conflict, why)) => settings.output.note(&why),
                Err(fault) => return Err(fault),
            }
        }
        if Instant::now() >= deadline {
            return Err(Fault::Exit(Exit::Unavailable, format!("member {id} {said}: no vote within {:?}", args.wait)));
        }
        api.pause(LOOK_EVERY);
    }
    settings.output.note(&format!("member {id} has a vote"));
    Ok(())
}
