//! The document that the routes generate is the one kept under `openapi/`, so that a change of the interface is seen.

use std::path::Path;

#[test]
fn the_kept_document_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/slotkeeper.json");
    let generated = slotkeeper::server::openapi_json();
    if std::env::var_os("SLOTKEEPER_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("openapi/ can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("openapi/slotkeeper.json is there");
    let differing = kept.lines().zip(generated.lines()).position(|(kept, generated)| kept != generated);
    assert!(
        kept == generated,
        "the interface changed (first at line {:?}): read the difference after SLOTKEEPER_BLESS=1 cargo test openapi",
        differing.map(|line| line + 1)
    );
}
