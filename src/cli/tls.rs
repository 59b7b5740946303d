//! `--cacert`, `--cert` and `--key`: what a connection over TLS trusts and shows.

use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::input;
use super::settings::Secret;
use crate::client::{ClientBuilder, ClientError};

/// Texts of the files, each with its name.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates to trust.
    pub authorities: Option<(String, String)>,
    /// Certificate to show, with its key.
    pub identity: Option<(String, Secret)>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Invalid input naming the file, or the option that is missing beside another.
    pub fn read(cacert: Option<PathBuf>, cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Self, Fault> {
        let authorities = cacert.map(|path| pem(&path, "CERTIFICATE")).transpose()?;
        let identity = match (cert, key) {
            (None, None) => None,
            (Some(_), None) => {
                return Err(Fault::invalid("--cert needs the private key of the certificate: give --key"));
            }
            (None, Some(_)) => return Err(Fault::invalid("--key needs the certificate of the key: give --cert")),
            (Some(cert), Some(key)) => {
                input::refuse_world_readable(&key)?;
                let (shown, cert) = pem(&cert, "CERTIFICATE")?;
                let (key_shown, key) = pem(&key, "PRIVATE KEY")?;
                Some((format!("{shown} with {key_shown}"), Secret(format!("{}\n{key}", cert.trim_end()))))
            }
        };
        Ok(Self { authorities, identity })
    }

    /// Gives them to a client.
    #[must_use]
    pub fn apply(&self, mut builder: ClientBuilder) -> ClientBuilder {
        if let Some((_, pem)) = &self.authorities {
            builder = builder.authorities(pem.as_bytes());
        }
        if let Some((_, pem)) = &self.identity {
            builder = builder.identity(pem.0.as_bytes());
        }
        builder
    }

    /// What the client says of a file, with its name.
    #[must_use]
    pub fn name(&self, error: ClientError) -> Fault {
        let authorities = self.authorities.as_ref().map(|(name, _)| name.as_str());
        let identity = self.identity.as_ref().map(|(name, _)| name.as_str());
        let files: Vec<&str> = match &error {
            ClientError::Config { what: "certificate authorities", .. } => authorities.into_iter().collect(),
            ClientError::Config { what: "client certificate", .. } => identity.into_iter().collect(),
            ClientError::Config { what: "TLS", .. } => authorities.into_iter().chain(identity).collect(),
            _ => Vec::new(),
        };
        let fault = Fault::from(error);
        if files.is_empty() { fault } else { fault.about(files.join(", ")) }
    }
}

/// A file's name and its text, which has at least one block of this kind.
fn pem(path: &Path, block: &str) -> Result<(String, String), Fault> {
    let shown = path.display().to_string();
    let text = String::from_utf8(input::read(&shown)?).map_err(|_| Fault::invalid(format!("{shown}: not UTF-8")))?;
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{block}-----"));
    if text.lines().any(begins) {
        Ok((shown, text))
    } else {
        Err(Fault::invalid(format!("{shown}: no {} in PEM form in it", block.to_lowercase())))
    }
}
