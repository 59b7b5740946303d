//! `slotkeeper token`: who may do what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::Fault;
use super::prompt::confirm;
use super::reason::ReasonArgs;
use super::settings::{Settings, duration};
use super::table::{left, render};
use crate::domain::{Instant, PrincipalName, Role, TokenId};
use crate::wire::{Timestamp, TokenCreate, TokenView};

/// Bearer tokens.
#[derive(Subcommand, Clone, Debug)]
pub enum TokenCommand {
    /// Create a token; its secret is printed this once
    Create(CreateArgs),
    /// List tokens
    List,
    /// Revoke a token
    Revoke(RevokeArgs),
}

/// A new token.
#[derive(Args, Clone, Debug)]
pub struct CreateArgs {
    /// Whose it is
    #[arg(value_name = "NAME")]
    pub name: PrincipalName,
    /// client, mover, viewer, operator, approver or admin
    #[arg(long, value_name = "ROLE")]
    pub role: Role,
    /// How long it works, such as 720h; for ever when absent
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub expires_in: Option<Duration>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A token.
#[derive(Args, Clone, Debug)]
pub struct RevokeArgs {
    /// Its id
    #[arg(value_name = "TOKEN")]
    pub token: TokenId,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: TokenCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let output = settings.output;
    match command {
        TokenCommand::Create(args) => {
            let expires_at = args.expires_in.map(|after| Timestamp(Instant(now_ms()).plus_ms(ms(after))));
            let body = TokenCreate { name: args.name, role: args.role, expires_at, reason: args.reason.text()? };
            let created = api.call(api.client.create_token(&body))?;
            if !output.is_for_people() {
                return output.json(&created);
            }
            output.note(&format!(
                "Token {} for {}; its secret is not shown again:",
                created.token.id, created.token.name
            ));
            output.text(&created.secret)
        }
        TokenCommand::List => {
            let tokens = api.call(api.client.tokens())?;
            if !output.is_for_people() {
                return output.json_list(&tokens);
            }
            let row = |token: &TokenView| {
                vec![
                    token.id.to_string(),
                    token.name.to_string(),
                    token.role.to_string(),
                    token.created_at.to_string(),
                    token.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string()),
                ]
            };
            let columns = [left("TOKEN"), left("NAME"), left("ROLE"), left("CREATED"), left("EXPIRES")];
            output.text(&render(&columns, &tokens.iter().map(row).collect::<Vec<_>>()))
        }
        TokenCommand::Revoke(args) => {
            confirm(settings, &format!("Revoke token {}?", args.token))?;
            let answer = api.call(api.client.revoke_token(&args.token))?;
            if output.is_for_people() {
                output.text(&format!("Token {} is revoked.", answer.revoked))
            } else {
                output.json(&answer)
            }
        }
    }
}

fn now_ms() -> u64 {
    ms(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
