//! Key → slot: the SDK's hot path beside the `crc16` crate, which hashes the bytes and looks for no hash tag.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use slotkeeper::client::slot_of_key;
use slotkeeper::domain::Slot;

fn keyslot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keyslot");
    for length in [4_usize, 8, 12, 15, 16, 32, 64, 256] {
        let key: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_with_input(BenchmarkId::new("crc16", length), &key, |b, key| {
            b.iter(|| crc16::State::<crc16::XMODEM>::calculate(black_box(key)) & 0x3fff);
        });
        group.bench_with_input(BenchmarkId::new("sdk", length), &key, |b, key| b.iter(|| slot_of_key(black_box(key))));
        group.bench_with_input(BenchmarkId::new("of_key", length), &key, |b, key| {
            b.iter(|| Slot::of_key(black_box(key)));
        });
    }
    for (name, key) in
        [("tag", "{user1000}.following.since"), ("long tag", "prefix:{0123456789abcdef0123456789abcdef}:x")]
    {
        group.bench_with_input(BenchmarkId::new("sdk", name), key, |b, key| {
            b.iter(|| slot_of_key(black_box(key.as_bytes())));
        });
        group.bench_with_input(BenchmarkId::new("of_key", name), key, |b, key| {
            b.iter(|| Slot::of_key(black_box(key.as_bytes())));
        });
    }
    group.finish();
}

criterion_group!(benches, keyslot);
criterion_main!(benches);
