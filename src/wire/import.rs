//! Adopting a running cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClusterView, Fault, Text, schema};
use crate::domain::{Address, Host, Zone, ZonePattern};

/// Adopt a running cluster: from the text of `CLUSTER NODES`, or from the nodes themselves, by the address of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The text, as a node printed it. Either this or `seed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_text: Option<String>,
    /// The host that was asked: fills in for nodes printed with an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HostText>)]
    pub dialled: Option<Host>,
    /// The address of any node of the running cluster: it and all masters that it knows are asked, with the credentials
    /// that the controller is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AddressText>)]
    pub seed: Option<Address>,
    /// The zone of each node, by node id, `host:port` or host.
    #[serde(default, deserialize_with = "super::patch::distinct_keys", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, schema::Name>)]
    pub zones: BTreeMap<String, Zone>,
    /// The zone by host name, where `zones` does not tell it: a name with one `{zone}`, and `*` for any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ZonePatternText>)]
    pub zone_pattern: Option<ZonePattern>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

impl ImportRequest {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`Fault`] when it names neither a text nor a seed, or both.
    pub fn validate(&self) -> Result<(), Fault> {
        match (&self.nodes_text, &self.seed, &self.dialled) {
            (None, None, _) => Err(Fault::new("seed", "either seed or nodes_text must be given")),
            (Some(_), Some(_), _) => Err(Fault::new("seed", "excludes nodes_text")),
            (None, Some(_), Some(_)) => Err(Fault::new("dialled", "goes with nodes_text: a seed is what is dialled")),
            _ => Ok(()),
        }
    }
}

/// The cluster adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The cluster.
    pub cluster: ClusterView,
    /// What a person should know: nodes left out, failing nodes, slots not covered, what a crash can lose.
    pub notes: Vec<String>,
}
