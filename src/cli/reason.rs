//! `--reason`: why, for the audit.

use clap::Args;

use super::fault::Fault;
use crate::wire::Text;

/// Why.
#[derive(Args, Clone, Debug, Default)]
pub struct ReasonArgs {
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

impl ReasonArgs {
    /// The reason as it is sent.
    ///
    /// # Errors
    /// Invalid input when it has characters that hide, or is too long.
    pub fn text(&self) -> Result<Option<Text>, Fault> {
        text(self.reason.as_deref())
    }
}

/// A reason as it is sent.
///
/// # Errors
/// Invalid input when it has characters that hide, or is too long.
pub fn text(reason: Option<&str>) -> Result<Option<Text>, Fault> {
    reason.map(Text::new).transpose().map_err(|fault| Fault::from(fault).about("--reason"))
}
