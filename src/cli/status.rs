//! `slotkeeper status`: the controller that answers, its group, its clusters.

use std::fmt::Write as _;

use super::api::Api;
use super::cluster;
use super::fault::Fault;
use super::output::escape;
use super::settings::Settings;

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
