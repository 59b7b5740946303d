//! `slotkeeper config`: the settings of this command line.

use clap::Subcommand;

use super::fault::Fault;
use super::settings::Settings;

/// Settings of this command line.
#[derive(Subcommand, Clone, Debug)]
pub enum ConfigCommand {
    /// Check configuration file, environment and options
    Check,
    /// Show the settings in force and where they come from
    Show,
}

/// Carries out one command. Settings that cannot be were refused before.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: &ConfigCommand, settings: &Settings) -> Result<(), Fault> {
    super::api::Api::open(settings)?;
    let shown = settings.shown();
    if !settings.output.is_for_people() {
        return settings.output.json(&shown);
    }
    let file =
        shown.file.as_ref().map_or_else(|| "no configuration file".to_owned(), |file| file.display().to_string());
    match command {
        ConfigCommand::Check => settings.output.text(&format!("{file}: ok")),
        ConfigCommand::Show => settings.output.text(&format!(
            "file       {file}\nendpoints  {}\ncluster    {}\ntoken      {}\noutput     {}\ntimeout    {} ms\n",
            shown.endpoints.join(", "),
            shown.cluster,
            shown.token.as_deref().map_or_else(|| "none".to_owned(), |from| format!("from {from}")),
            shown.output,
            shown.timeout_ms
        )),
    }
}
