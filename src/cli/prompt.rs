//! Asking before something that cannot simply be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use super::fault::{Exit, Fault};
use super::output::escape;
use super::settings::Settings;

/// Whether somebody can be asked, or need not be: looked at before anything else is done.
///
/// # Errors
/// Declined, where there is neither a terminal nor `--yes`.
pub fn can_ask(settings: &Settings) -> Result<(), Fault> {
    if settings.yes || io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Fault::Exit(
        Exit::Declined,
        "this asks before it acts, and there is no terminal to ask on: give --yes".to_owned(),
    ))
}

/// Asks on the terminal, unless `--yes` was given.
///
/// # Errors
/// Declined, also where there is no terminal to ask on.
pub fn confirm(settings: &Settings, question: &str) -> Result<(), Fault> {
    if settings.yes {
        return Ok(());
    }
    can_ask(settings)?;
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{} [y/N] ", escape(&settings.output.shortened(question)));
    let _ = stderr.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        Ok(())
    } else {
        Err(Fault::Exit(Exit::Declined, "declined, nothing was changed".to_owned()))
    }
}
