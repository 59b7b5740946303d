//! Snapshots: too large for a body in memory, so the answer is read piece by piece.

use bytes::Bytes;

use super::send::{Failure, Received, refusal, unreachable_at};
use super::{Client, Request};
use crate::client::ClientError;
use crate::wire::SnapshotTaken;

/// A snapshot on its way here.
#[derive(Debug)]
pub struct Download {
    answer: reqwest::Response,
    endpoint: String,
}

impl Client {
    /// Makes the member that answers write a snapshot for itself.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn take_snapshot(&self) -> Result<SnapshotTaken, ClientError> {
        self.call(Request::act("/v1/snapshots")).await
    }

    /// A snapshot of everything committed before the call, from the first endpoint that gives one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn download_snapshot(&self) -> Result<Download, ClientError> {
        let request = Request::get("/v1/snapshots/latest");
        let mut last = None;
        for endpoint in &self.inner.endpoints {
            let asked = async {
                let answer = self.begin(endpoint, &request).await?;
                if answer.status().is_success() {
                    return Ok(answer);
                }
                let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
                let body = answer.bytes().await.map_err(|error| unreachable_at(endpoint, &error))?.to_vec();
                Err(refusal(&Received { status, headers, body, endpoint: endpoint.clone() }))
            };
            let limit = self.inner.timeout;
            let late = || ClientError::Timeout { endpoint: endpoint.clone(), after: limit };
            match tokio::time::timeout(limit, asked).await {
                Ok(Ok(answer)) => return Ok(Download { answer, endpoint: endpoint.clone() }),
                Ok(Err(Failure::Final(error))) => return Err(error),
                Ok(Err(Failure::Passing(error, _))) => last = Some(error),
                Err(_) => last = Some(late()),
            }
        }
        Err(last.expect("there is at least one endpoint"))
    }
}

impl Download {
    /// The next piece; none at the end.
    ///
    /// # Errors
    /// [`ClientError`] when the connection broke: what came is no snapshot.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.answer.chunk().await.map_err(|error| unreachable_at(&self.endpoint, &error).into_error())
    }
}
