//! `slotkeeper status` and `slotkeeper member`: the controller that answers, its group, its clusters.

use std::fmt::Write as _;

use clap::Subcommand;

use super::api::Api;
use super::cluster;
use super::fault::Fault;
use super::output::escape;
use super::settings::Settings;
use super::table::{left, render, right};
use crate::wire::MemberView;

/// Members of the raft group.
#[derive(Subcommand, Clone, Debug)]
pub enum MemberCommand {
    /// List members
    List,
}

/// Prints the controller's status.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let status = api.call(api.client.status())?;
    if !settings.output.is_for_people() {
        return settings.output.json(&status);
    }
    let who = api.call(api.client.whoami())?;
    let clusters = api.call(api.client.clusters())?;
    let leader = status.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    let ready = if status.ready { "ready" } else { "NOT READY" };
    let mut text = format!(
        "controller {} | member {} of {}: {}, leader {leader}, term {} | {ready}\n",
        escape(&status.version),
        status.member_id,
        status.members.len(),
        escape(&status.role),
        status.term
    );
    let _ = writeln!(
        text,
        "committed {} | applied {} | state {} at {}",
        status.committed,
        status.applied,
        escape(status.state_hash.get(..19).unwrap_or(&status.state_hash)),
        status.state_hash_index
    );
    let _ = writeln!(text, "you are {} ({})\n", who.name, who.role);
    text += &cluster::list(&clusters);
    settings.output.text(&text)
}

/// Carries out one command about members.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn members(command: &MemberCommand, settings: &Settings) -> Result<(), Fault> {
    let MemberCommand::List = command;
    let api = Api::open(settings)?;
    let members = api.call(api.client.members())?;
    if !settings.output.is_for_people() {
        return settings.output.json_list(&members);
    }
    let row = |member: &MemberView| {
        let leads = if member.leader { "leader" } else { "-" };
        vec![member.id.to_string(), member.peer_address.clone(), leads.to_owned()]
    };
    let columns = [right("MEMBER"), left("PEER ADDRESS"), left("ROLE")];
    settings.output.text(&render(&columns, &members.iter().map(row).collect::<Vec<_>>()))
}
