//! One server, and what it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::super::link::{Link, LinkError, Reply};
use super::super::links::Links;
use super::super::value::{bytes, command, list, text};
use super::facts;
use crate::domain::Address;
use crate::driver::nodes::{Answer, Depth, Facts, Mandate, NodesError};
use crate::nodes_text::{self, View};

/// How long a server may take to answer one question.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// A server at an address.
pub(super) struct Server<'a> {
    links: &'a Links,
    address: &'a Address,
}

impl<'a> Server<'a> {
    pub const fn new(links: &'a Links, address: &'a Address) -> Self {
        Self { links, address }
    }

    /// A connection to it, kept for the next question.
    pub async fn link(&self) -> Result<Arc<Link>, NodesError> {
        let link = self.links.shared_at(None, &self.address.host, self.address.port).await;
        link.map_err(|error| told(&error))
    }

    fn answered(&self, reply: Result<Reply, LinkError>, words: &[&str]) -> Result<Value, NodesError> {
        reply
            .map_err(|error| told(&error))?
            .map_err(|refusal| NodesError::Refused(format!("{} answered to {}: {refusal}", self.address, shown(words))))
    }

    /// One command that changes something: as the user of the leader's term, where there is one, and only while it leads.
    /// `place`: where the tests of the whole controller stop before it.
    pub async fn order(&self, mandate: &Mandate, words: &[&str], place: &'static str) -> Result<Value, NodesError> {
        let mut again = true;
        loop {
            let link = self.links.shared_at(Some(&mandate.cluster), &self.address.host, self.address.port).await;
            let link = link.map_err(|error| told(&error))?;
            self.links.settings().failpoints.reach(place).await;
            mandate.holds().await?;
            match link.ask(&command(words), ANSWER_TIME).await {
                // It was started anew since it was last commanded: what is said twice is as good as said once.
                Err(LinkError::Lost { .. }) if std::mem::take(&mut again) => {}
                reply => return self.answered(reply, words),
            }
        }
    }

    /// Many commands, and what it said to each.
    pub async fn pipeline(&self, commands: Vec<Cmd>) -> Result<Vec<Reply>, NodesError> {
        self.link().await?.pipeline(commands, ANSWER_TIME).await.map_err(|error| told(&error))
    }

    /// The text of `CLUSTER NODES`.
    pub async fn nodes_text(&self) -> Result<Vec<u8>, NodesError> {
        let link = self.link().await?;
        let reply = link.ask(&command(&["CLUSTER", "NODES"]), ANSWER_TIME).await.map_err(|error| told(&error))?;
        self.text_of(reply)
    }

    /// The cluster as it sees it.
    pub async fn view(&self) -> Result<View, NodesError> {
        let text = self.nodes_text().await?;
        self.view_of(&text)
    }

    /// What it sees, and how it stands.
    pub async fn answer(&self, depth: Depth) -> Result<Answer, NodesError> {
        if depth == Depth::Views {
            return Ok(Answer { view: self.view().await?, facts: Facts::default() });
        }
        let (text, facts) = self.whole().await?;
        Ok(Answer { view: self.view_of(&text)?, facts })
    }

    /// The text of `CLUSTER NODES`, and how it stands.
    pub async fn whole(&self) -> Result<(Vec<u8>, Facts), NodesError> {
        let mut questions = vec![command(&["CLUSTER", "NODES"]), command(&["INFO"])];
        questions.extend(facts::SETTINGS.map(|name| command(&["CONFIG", "GET", name])));
        questions.push(command(&["ACL", "WHOAMI"]));
        let mut replies = self.pipeline(questions).await?.into_iter();
        let mut next = || replies.next().expect("a reply to each");
        let nodes = self.text_of(next())?;
        let info =
            next().map_err(|refusal| NodesError::Refused(format!("{} answered to INFO: {refusal}", self.address)))?;
        let info = text(&info).ok_or_else(|| self.no("text to INFO"))?;
        let mut settings = BTreeMap::new();
        for name in facts::SETTINGS {
            // Where it may not be asked, or does not know the setting, nothing is known of it.
            if let Ok(value) = next()
                && let Some(value) = setting(&value)
            {
                settings.insert(name, value);
            }
        }
        let mut facts = facts::of(info, &settings);
        facts.user = next().ok().and_then(|value| text(&value).map(str::to_owned));
        if let Some(user) = facts.user.clone() {
            facts.denied = self.denied(&user).await?;
        }
        Ok((nodes, facts))
    }

    /// The commands of a move that a user may not give; empty where the server cannot tell.
    async fn denied(&self, user: &str) -> Result<Vec<String>, NodesError> {
        let questions = facts::NEEDED.iter().map(|words| {
            let mut dry = command(&["ACL", "DRYRUN", user]);
            for word in words.split(' ') {
                dry.arg(word);
            }
            dry
        });
        let replies = self.pipeline(questions.collect()).await?;
        let denied = facts::NEEDED.iter().zip(replies).filter(|(_, reply)| match reply {
            Ok(value) => bytes(value).is_some_and(|said| said != b"OK"),
            Err(_) => false,
        });
        Ok(denied.map(|(words, _)| facts::command_of(words)).collect())
    }

    pub fn view_of(&self, text: &[u8]) -> Result<View, NodesError> {
        let view = nodes_text::view(text, Some(&self.address.host));
        view.map_err(|error| NodesError::Refused(format!("what {} answers to CLUSTER NODES: {error}", self.address)))
    }

    fn text_of(&self, reply: Reply) -> Result<Vec<u8>, NodesError> {
        match reply {
            Ok(value) => bytes(&value).map(<[u8]>::to_vec).ok_or_else(|| self.no("text to CLUSTER NODES")),
            Err(refusal) if refusal.text().contains("cluster support disabled") => {
                Err(NodesError::Refused(format!("{} is not in cluster mode (cluster-enabled no)", self.address)))
            }
            Err(refusal) if refusal.code() == "NOAUTH" => {
                let why = "it asks for a password, and this controller is configured without one";
                Err(NodesError::Refused(format!("{}: {why} ({refusal})", self.address)))
            }
            Err(refusal) if refusal.passes() => {
                Err(NodesError::Unavailable(format!("{} answered to CLUSTER NODES: {refusal}", self.address)))
            }
            Err(refusal) => Err(NodesError::Refused(format!("{} answered to CLUSTER NODES: {refusal}", self.address))),
        }
    }

    fn no(&self, what: &str) -> NodesError {
        NodesError::Refused(format!("{} gave no {what}: is it a Redis server?", self.address))
    }
}

/// The value of a setting, as `CONFIG GET` gives it: a list of name and value, or a map.
fn setting(value: &Value) -> Option<String> {
    let value = match value {
        Value::Map(pairs) => &pairs.first()?.1,
        other => list(other)?.get(1)?,
    };
    text(value).map(str::to_owned)
}

fn shown(words: &[&str]) -> String {
    words.iter().take(2).copied().collect::<Vec<_>>().join(" ")
}

/// An error of a connection in the words of this room.
fn told(error: &LinkError) -> NodesError {
    match error {
        LinkError::Lost { why, .. } if !why.contains("TLS") && !why.contains("it sent more") => {
            NodesError::Unavailable(format!("{error}; is it a Redis server, and TLS used as the server expects it?"))
        }
        other if other.passes() || *other == LinkError::SteppedDown => NodesError::Unavailable(error.to_string()),
        _ => NodesError::Refused(error.to_string()),
    }
}
