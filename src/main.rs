//! The `slotkeeper` binary: reads the arguments and hands over to `cli` or `app`.

fn main() {}
