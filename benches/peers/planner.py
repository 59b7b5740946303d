#!/usr/bin/env python3
"""The planner beside OpenStack Swift's RingBuilder and redis-cli's algorithm, in one run.

    cargo build --release && benches/peers/planner.py [path/to/slotkeeper]

Moves, ranges afterwards and time of the same scale events on 16384 slots (part power 14, one replica). Swift comes from
PyPI (`pip install swift`, in a virtual environment); where it cannot be imported, its columns say so. redis-cli's
`--cluster rebalance` is written out below as clusterManagerCommandRebalance of Redis 7.0 does it.
"""

import ctypes
import importlib
import json
import subprocess
import sys
import time

SLOTS = 16384


def contiguous(weights):
    """Owners by weight, extra slots by largest remainder, then to the lowest id."""
    total = sum(weights)
    counts = [SLOTS * w // total for w in weights]
    order = sorted(range(len(weights)), key=lambda i: -(SLOTS * weights[i] % total))
    for i in order[: SLOTS - sum(counts)]:
        counts[i] += 1
    return [i for i, count in enumerate(counts) for _ in range(count)]


def ranges(owners):
    return 1 + sum(a != b for a, b in zip(owners, owners[1:]))


# name, weights before, weights afterwards (0: drained)
CASES = [
    ("3→4", [1] * 3, [1] * 4),
    ("10→11", [1] * 10, [1] * 11),
    ("100→101", [1] * 100, [1] * 101),
    ("1000→1001", [1] * 1000, [1] * 1001),
    ("10→9 (the fifth)", [1] * 10, [1] * 4 + [0] + [1] * 5),
    ("1,1,2,4,8, add 3", [1, 1, 2, 4, 8], [1, 1, 2, 4, 8, 3]),
    ("10, the fifth 1→2", [1] * 10, [1] * 4 + [2] + [1] * 5),
]


def slotkeeper(binary, before, after):
    owners = contiguous(before)
    lines = []
    for i in range(len(before)):
        mine = [s for s in range(SLOTS) if owners[s] == i]
        slots = f" {mine[0]}-{mine[-1]}" if mine else ""
        lines.append(f"{i:040x} 127.0.0.1:{7000 + i}@{17000 + i} master - 0 0 {i + 1} connected{slots}\n")
    args = [binary, "plan", "create", "--offline", "-", "-o", "json", "--slots-per-move", "1024"]
    for i, weight in enumerate(after):
        if i >= len(before):
            args += ["--add", f"{i:040x}={weight}"]
        elif weight == 0:
            args += ["--drain-shard", f"{i:040x}"]
        elif weight != before[i] or max(before) > 1:
            args += ["--weight", f"{i:040x}={weight}"]
    start = time.perf_counter()
    done = subprocess.run(args, input="".join(lines), capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 10):
        raise SystemExit(f"slotkeeper failed: {done.stderr}")
    summary = json.loads(done.stdout)["summary"]
    return summary["slots"], summary["ranges_after"], seconds


def redis_cli(before, after):
    start = time.perf_counter()
    owners = contiguous(before)
    total = ctypes.c_float(sum(after)).value
    per_weight = ctypes.c_float(SLOTS / total).value
    counts = [owners.count(i) for i in range(len(after))]
    balance = [counts[i] - int(ctypes.c_float(per_weight * after[i]).value) for i in range(len(after))]
    left = sum(balance)
    while left > 0:
        for i in range(len(after)):
            if balance[i] <= 0 and left > 0:
                balance[i] -= 1
                left -= 1
        if all(b > 0 for b in balance):
            break
    order = sorted(range(len(after)), key=lambda i: balance[i])
    low, high, moves = 0, len(order) - 1, 0
    while low < high:
        to, source = order[low], order[high]
        number = min(abs(balance[to]), abs(balance[source]))
        if number > 0:
            mine = [s for s in range(SLOTS) if owners[s] == source][:number]
            for slot in mine:
                owners[slot] = to
            moves += number
        balance[to] += number
        balance[source] -= number
        low += balance[to] == 0
        high -= balance[source] == 0
    return moves, ranges(owners), time.perf_counter() - start


def swift(before, after):
    from swift.common.ring import RingBuilder

    builder = RingBuilder(14, 1, 0)
    device = lambda i, w: {"id": i, "region": 0, "zone": 0, "ip": "127.0.0.1", "port": 6000 + i, "device": f"d{i}", "weight": float(w)}
    for i, weight in enumerate(before):
        builder.add_dev(device(i, weight))
    builder.rebalance(seed=1)
    # The same contiguous start for all.
    for part, owner in enumerate(contiguous(before)):
        builder._replica2part2dev[0][part] = owner
    for dev in builder.devs:
        dev["parts"] = sum(1 for owner in builder._replica2part2dev[0] if owner == dev["id"])
    start = time.perf_counter()
    for i, weight in enumerate(after):
        if i >= len(before):
            builder.add_dev(device(i, weight))
        elif weight != before[i]:
            builder.set_dev_weight(i, float(weight))
    first = list(builder._replica2part2dev[0])
    builder.rebalance(seed=1)
    seconds = time.perf_counter() - start
    last = list(builder._replica2part2dev[0])
    return sum(a != b for a, b in zip(first, last)), ranges(last), seconds


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "target/release/slotkeeper"
    try:
        importlib.import_module("swift.common.ring")
        with_swift = True
    except ImportError as why:
        print(f"Swift is not here ({why}): pip install swift", file=sys.stderr)
        with_swift = False
    print("| case | slotkeeper: moves, ranges, time of the process | redis-cli 7.0 | Swift |")
    print("|---|---|---|---|")
    for name, before, after in CASES:
        cells = [slotkeeper(binary, before, after), redis_cli(before, after)]
        text = [f"{moves}, {size}, {seconds * 1000:.0f} ms" for moves, size, seconds in cells]
        if with_swift:
            moves, size, seconds = swift(before, after)
            text.append(f"{moves}, {size}, {seconds * 1000:.0f} ms")
        else:
            text.append("not installed")
        print(f"| {name} | " + " | ".join(text) + " |")


if __name__ == "__main__":
    main()
