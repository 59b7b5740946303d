//! What a member does in each term in which it leads.

use crate::controller::Controller;

/// Runs `lead` with each term in which this member leads, dropped as soon as the term is over, and `over` after each change;
/// returns when the group is gone.
pub async fn each_term<Lead: Future<Output = ()>>(
    controller: &Controller,
    lead: impl Fn(u64) -> Lead,
    over: impl Fn(),
) {
    let mut leading = controller.leading();
    loop {
        let term = *leading.borrow_and_update();
        let ended = match term {
            None => leading.changed().await,
            Some(term) => {
                tokio::select! {
                    // Dropping the future ends every task of the term at once.
                    changed = leading.changed() => changed,
                    () = lead(term) => Ok(()),
                }
            }
        };
        over();
        if ended.is_err() {
            return;
        }
    }
}
