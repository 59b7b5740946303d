//! Key → slot against a real redis-server: `tests/fixtures/keyslot.json`, made by `make_keyslot.py` beside it.

use serde_json::Value;
use slotkeeper::client::slot_of_key;
use slotkeeper::domain::Slot;

#[test]
fn both_implementations_agree_with_redis() {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/keyslot.json")).unwrap();
    let vectors = fixture["vectors"].as_array().unwrap();
    assert!(vectors.len() > 300);
    for vector in vectors {
        let hex = vector["key_hex"].as_str().unwrap();
        let key: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
        let slot = Slot::new(u16::try_from(vector["slot"].as_u64().unwrap()).unwrap()).unwrap();
        assert_eq!(Slot::of_key(&key), slot, "crc16: {hex}");
        assert_eq!(slot_of_key(&key), slot, "sdk: {hex}");
    }
}
