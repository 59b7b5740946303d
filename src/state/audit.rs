//! The hash chain of the audit: every record names the hash of the one before, so that none can be changed, left
//! out or put in between without it showing.

use sha2::{Digest as _, Sha256};

use super::{AuditHead, AuditRecord};
use crate::domain::{ClusterName, TokenId, hex};

/// Where a chain of records breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("audit record {seq}: {why}")]
pub struct BrokenChain {
    /// Number of the record, as it stands in it.
    pub seq: u64,
    /// The fault.
    pub why: String,
}

impl AuditHead {
    /// Checks records that follow this one, in order, and gives the last. Start from `default()` for the whole chain.
    ///
    /// # Errors
    /// [`BrokenChain`] naming the first record that does not follow.
    pub fn verify<'a>(&self, records: impl IntoIterator<Item = &'a AuditRecord>) -> Result<Self, BrokenChain> {
        let mut head = self.clone();
        for record in records {
            let fault = |why: String| Err(BrokenChain { seq: record.seq, why });
            if record.seq != head.seq + 1 {
                return fault(format!("it follows record {}", head.seq));
            }
            if record.previous != head.hash {
                return fault(format!("it names {:?} as the hash before, which is {:?}", record.previous, head.hash));
            }
            let hash = record.compute_hash();
            if record.hash != hash {
                return fault(format!("its hash is {hash}, not {}", record.hash));
            }
            head = Self { seq: record.seq, hash };
        }
        Ok(head)
    }

    /// Numbers and seals a record as the next of the chain.
    pub(super) fn append(&mut self, mut record: AuditRecord) -> AuditRecord {
        record.seq = self.seq + 1;
        record.previous = std::mem::take(&mut self.hash);
        record.hash = record.compute_hash();
        *self = Self { seq: record.seq, hash: record.hash.clone() };
        record
    }
}

impl AuditRecord {
    /// The hash that this record must have: SHA-256 (hex) over every other field, each with its length before it and
    /// a mark whether it is there.
    #[must_use]
    pub fn compute_hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut field = |text: Option<&str>| {
            hash.update([u8::from(text.is_some())]);
            let text = text.unwrap_or_default();
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        field(Some("slotkeeper.audit.1"));
        field(Some(&self.previous));
        field(Some(&self.seq.to_string()));
        field(Some(&self.at.0.to_string()));
        field(Some(self.by.name.as_str()));
        field(Some(self.by.role.as_str()));
        field(self.by.token.as_ref().map(TokenId::as_str));
        field(Some(&self.action));
        field(self.cluster.as_ref().map(ClusterName::as_str));
        field(self.subject.as_deref());
        field(Some(&self.summary));
        field(self.reason.as_deref());
        field(self.version.map(|version| version.to_string()).as_deref());
        hex(&hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Instant, Principal};

    fn chain(length: u64) -> Vec<AuditRecord> {
        let mut head = AuditHead::default();
        (0..length)
            .map(|n| {
                head.append(AuditRecord {
                    seq: 0,
                    at: Instant(1000 + n),
                    by: Principal::system("test"),
                    action: "plan.approve".to_owned(),
                    cluster: None,
                    subject: Some(format!("p-{n}")),
                    summary: "approved".to_owned(),
                    reason: None,
                    version: None,
                    previous: String::new(),
                    hash: String::new(),
                })
            })
            .collect()
    }

    #[test]
    fn an_untouched_chain_holds_in_whole_and_in_parts() {
        let records = chain(5);
        let middle = AuditHead::default().verify(&records[..2]).unwrap();
        let end = middle.verify(&records[2..]).unwrap();
        assert_eq!(end, AuditHead { seq: 5, hash: records[4].hash.clone() });
    }

    #[test]
    fn every_tampering_shows() {
        let touch: [fn(&mut Vec<AuditRecord>); 6] = [
            |records| records[2].summary.push('!'),
            |records| records[2].reason = Some(String::new()),
            |records| records[2].by.name = crate::domain::PrincipalName::new("mallory").unwrap(),
            |records| records.swap(1, 2),
            |records| drop(records.remove(2)),
            |records| {
                records[2].at.0 += 1;
                records[2].hash = records[2].compute_hash();
            },
        ];
        for touch in touch {
            let mut records = chain(5);
            touch(&mut records);
            AuditHead::default().verify(&records).expect_err("tampered");
        }
    }

    /// The bytes under the hash are frozen. The value was computed apart from this code, with Python's `hashlib` over
    /// the layout that [`AuditRecord::compute_hash`] documents.
    #[test]
    fn the_bytes_are_frozen() {
        assert_eq!(chain(1)[0].hash, "8b8a64ebd539f8b4d827d3784f2e25f89e1739123574b4b0a1ce9303c680149b");
    }
}
