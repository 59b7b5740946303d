//! `--cacert`, `--cert` and `--key` against servers that speak TLS, with certificates of `tests/fixtures/tls`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// A server that answers every request with 404 and a problem; with `mutual` only to those who show a certificate.
async fn serve(mutual: bool) -> u16 {
    let certificates = CertificateDer::pem_file_iter(fixture("server.pem")).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = if mutual {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
        ServerConfig::builder().with_client_cert_verifier(WebPkiClientVerifier::builder(roots.into()).build().unwrap())
    } else {
        ServerConfig::builder().with_no_client_auth()
    };
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(certificates, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = vec![0; 4096];
                if stream.read(&mut head).await.is_ok_and(|read| read > 0) {
                    let body = r#"{"type":"urn:slotkeeper:problem:not-found","title":"It does not exist","status":404,
                        "detail":"told over TLS","code":"not-found","request_id":"r"}"#;
                    let answer = format!(
                        "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    drop(stream.write_all(answer.as_bytes()).await);
                    drop(stream.shutdown().await);
                }
            });
        }
    });
    port
}

/// Exit code and stderr of `status` at a port.
async fn status(port: u16, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slotkeeper"));
    command.env_clear().args(["status", "--timeout", "5s", "--endpoint", &format!("https://127.0.0.1:{port}")]);
    command.args(args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_believed_by_the_authority_that_is_named() {
    let port = serve(false).await;
    let ca = fixture("ca.pem");
    let (code, told) = status(port, &["--cacert", ca.to_str().unwrap()]).await;
    assert!(code == 5 && told.contains("told over TLS"), "{code}: {told}");
    let (code, told) = status(port, &[]).await;
    assert!([2, 6].contains(&code) && !told.contains("told over TLS"), "{code}: {told}");
    // Another authority: the client's own certificate is none at all.
    let (code, told) = status(port, &["--cacert", fixture("client.pem").to_str().unwrap()]).await;
    assert!(code == 6 && told.contains("certificate"), "{code}: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_to_know_its_clients_is_shown_the_certificate() {
    let port = serve(true).await;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("client.key");
    std::fs::copy(fixture("client.key"), &key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (ca, cert) = (fixture("ca.pem"), fixture("client.pem"));
    let trusting = ["--cacert", ca.to_str().unwrap()];
    let identity = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let (code, told) = status(port, &[trusting, [identity[0], identity[1]]].concat()).await;
    assert!(code == 2 && told.contains("--key"), "{code}: {told}");
    let (code, told) = status(port, &trusting).await;
    assert!(code == 6 && !told.contains("told over TLS"), "{code}: {told}");
    let (code, told) = status(port, &[&trusting[..], &identity].concat()).await;
    assert!(code == 5 && told.contains("told over TLS"), "{code}: {told}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, told) = status(port, &[&trusting[..], &identity].concat()).await;
    assert!(code == 2 && told.contains("client.key") && told.contains("chmod 600"), "{code}: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (broken, cert, key) = (broken.to_str().unwrap(), fixture("client.pem"), fixture("README.md"));
    let (cert, readme) = (cert.to_str().unwrap(), key.to_str().unwrap());
    for (args, named) in [
        (vec!["--cacert", "/nonexistent.pem"], "/nonexistent.pem"),
        (vec!["--cacert", readme], "README.md"),
        (vec!["--cacert", broken], "broken.pem"),
        (vec!["--key", broken], "--cert"),
        (vec!["--cert", cert, "--key", broken], "broken.pem"),
    ] {
        let (code, told) = status(9, &args).await;
        assert!(code == 2 && told.contains(named), "{args:?}: {code}: {told}");
    }
}
