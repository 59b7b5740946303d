//! The command line: arguments, one file per group of commands, rendering.
