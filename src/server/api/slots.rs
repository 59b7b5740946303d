//! Single slots: owner, key look-up, explanation.

use axum::Json;
use axum::extract::{RawQuery, State};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::{ClusterPath, ReadQuery};
use crate::domain::{ClusterName, Slot, hash_tag, is_plain_number};
use crate::server::error::ApiError;
use crate::server::query::{At, Consistency, Read};
use crate::server::{Shared, views};
use crate::wire::{ExplainView, KeySlotView, SlotView, schema};

/// A slot in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct SlotPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The slot.
    #[param(value_type = u16, maximum = 16383)]
    #[serde(deserialize_with = "slot")]
    pub slot: Slot,
}

/// A number in the one way it is written: no sign, no leading zeros.
fn slot<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Slot, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = is_plain_number(&text).then(|| text.parse().ok()).flatten().and_then(|n| Slot::new(n).ok());
    number.ok_or_else(|| serde::de::Error::custom(format!("slot: {text:?} is not a number in 0..=16383")))
}

/// A key to look up.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query; it is read as bytes")]
pub struct KeyQuery {
    /// The key, percent-encoded; any bytes.
    key: String,
    /// How fresh the answer must be; `linearizable` when absent.
    #[param(inline)]
    consistency: Option<Consistency>,
}

/// Show a slot.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/slots/{slot}", tag = "slots", params(SlotPath, ReadQuery),
    responses((status = 200, description = "The slot and its owner.", body = SlotView)))]
pub async fn show_slot(State(app): State<Shared>, At(path): At<SlotPath>, _: Read) -> Result<Json<SlotView>, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    Ok(Json(views::slot(&cluster, path.slot)))
}

/// Explain why a slot is where it is, and what the open plan does with it.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/slots/{slot}/explain", tag = "slots",
    params(SlotPath, ReadQuery),
    responses((status = 200, description = "The reasons.", body = ExplainView)))]
pub async fn explain_slot(
    State(app): State<Shared>,
    At(path): At<SlotPath>,
    _: Read,
) -> Result<Json<ExplainView>, ApiError> {
    let explanation = app.controller.explain(&path.cluster, path.slot)?;
    Ok(Json(ExplainView {
        slot: explanation.slot,
        owner: explanation.owner,
        plan: explanation.plan,
        because: explanation.because,
    }))
}

/// Show the slot of a key.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/keyslot", tag = "slots", params(ClusterPath, KeyQuery),
    responses((status = 200, description = "The key's slot and its owner.", body = KeySlotView)))]
pub async fn key_slot(
    State(app): State<Shared>,
    At(path): At<ClusterPath>,
    RawQuery(query): RawQuery,
) -> Result<Json<KeySlotView>, ApiError> {
    let (key, consistency) = read_query(query.as_deref().unwrap_or_default())?;
    consistency.reach(&app.controller).await?;
    let cluster = app.controller.cluster(&path.cluster)?;
    let slot = views::slot(&cluster, Slot::of_key(&key));
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Json(KeySlotView { key: shown(&key), hash_tag: shown(hash_tag(&key)), slot }))
}

/// The key as bytes: keys need not be UTF-8, so that the usual reader of queries would refuse or change some.
fn read_query(query: &str) -> Result<(Vec<u8>, Consistency), ApiError> {
    let (mut key, mut consistency) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value =
            decode(value).ok_or_else(|| ApiError::malformed("a percent sign without two hex digits").field(name))?;
        let repeated = match (name, value.as_slice()) {
            ("key", _) => key.replace(value).is_some(),
            ("consistency", b"local") => consistency.replace(Consistency::Local).is_some(),
            ("consistency", b"lease") => consistency.replace(Consistency::Lease).is_some(),
            ("consistency", b"linearizable") => consistency.replace(Consistency::Linearizable).is_some(),
            ("consistency", _) => {
                return Err(ApiError::malformed("consistency is linearizable, lease or local").field("consistency"));
            }
            _ => return Err(ApiError::malformed(format!("unknown parameter {name:?}")).field(name)),
        };
        if repeated {
            return Err(ApiError::malformed(format!("{name} is given twice")).field(name));
        }
    }
    let key = key.ok_or_else(|| ApiError::malformed("the parameter key is missing").field("key"))?;
    Ok((key, consistency.unwrap_or_default()))
}

/// `application/x-www-form-urlencoded` to bytes.
fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut bytes, mut out) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            b'+' => b' ',
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes() {
        let key = |query: &str| read_query(query).map(|(key, _)| key);
        assert_eq!(b"a b{\xff}&".to_vec(), key("key=a+b%7b%FF%7D%26").unwrap());
        assert_eq!(b"".to_vec(), key("key=").unwrap());
        assert_eq!(Consistency::Local, read_query("consistency=local&key=x").unwrap().1);
        for bad in ["", "key=%", "key=%4", "key=%zz", "key=a&key=b", "key=a&x=1", "key=a&consistency=maybe"] {
            assert_eq!(400, key(bad).unwrap_err().status().as_u16(), "{bad}");
        }
    }
}
