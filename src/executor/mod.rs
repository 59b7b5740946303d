//! The leader's loop that carries rollouts out: takes actions, calls the driver, commits the outcome.
