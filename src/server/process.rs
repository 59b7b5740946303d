//! The basics of this process, from `/proc`; nothing where there is none.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::metrics::{counter, gauge};

/// Looks at the process when somebody asks.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(status) = fs::read_to_string("/proc/self/status").ok()
            && let Some(kib) = field(&status, "VmRSS:")
        {
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory", kib * 1024)?;
            let threads = field(&status, "Threads:").unwrap_or(0);
            gauge(&mut encoder, "process_threads", "Threads", threads)?;
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            gauge(&mut encoder, "process_open_fds", "Open file descriptors", entries.count() as u64)?;
        }
        if let Some(ticks) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_ticks) {
            // Linux counts in hundredths of a second towards user space, whatever the kernel's own tick is.
            counter(&mut encoder, "process_cpu_seconds", "User and system time", ticks as f64 / 100.0)?;
        }
        Ok(())
    }
}

/// The number after a field's name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// User and system time of `/proc/self/stat`: fields 14 and 15, counted after the name in parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_says() {
        assert_eq!(Some(5432), field("Name:\tx\nVmRSS:\t    5432 kB\n", "VmRSS:"));
        let stat = "17 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 41 1 0 0 20 0 1 0 100";
        assert_eq!(Some(42), cpu_ticks(stat));
    }
}
