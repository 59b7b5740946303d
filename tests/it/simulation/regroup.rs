//! The operator of the group: adds members and gives them a vote, takes members out, also the leader and the dead, and
//! has the lead handed over, while everything else goes on and goes wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::Method;
use rand::RngExt;
use serde_json::json;
use tokio::time::sleep;

use super::clients::Client;
use super::member::{Seat, is};

/// As few voters as are left when members are taken out.
const VOTERS_MIN: usize = 2;
const VOTERS_MAX: usize = 5;

/// A member as the group tells.
struct Known {
    id: u64,
    address: String,
    votes: bool,
}

impl Client {
    /// Changes the group until the faults are over, and then takes the dead out.
    pub async fn regroup(mut self) {
        let mut spare: Vec<Arc<Seat>> = self.all.seats.iter().filter(|seat| !seat.in_play()).cloned().collect();
        // Whether all that was asked for is known to be done or not.
        let mut settled = true;
        let mut first = true;
        while !self.all.healed() {
            let what = if std::mem::take(&mut first) { 0 } else { self.rng.random_range(0..10) };
            settled &= match what {
                0..4 => self.enlarge(&mut spare).await,
                4..7 => self.shrink().await,
                7..9 if settled && !spare.is_empty() => self.replace(&mut spare).await,
                _ => self.transfer().await,
            };
            self.pause(250).await;
        }
        *self.all.doomed.lock().unwrap() = None;
        while !self.all.stopped() && !self.bury().await {
            self.pause(100).await;
        }
        self.all.regrouped.store(true, Ordering::Relaxed);
    }

    /// Who the members are; none when nobody says.
    async fn known(&mut self) -> Vec<Known> {
        let Some(answer) = self.get("/v1/members").await else { return Vec::new() };
        let items = answer.json["items"].as_array().cloned().unwrap_or_default();
        let known = items.iter().map(|item| Known {
            id: item["id"].as_u64().expect("a number"),
            address: item["peer_address"].as_str().expect("an address").to_owned(),
            votes: item["standing"] == "voter",
        });
        known.collect()
    }

    /// Adds a member and gives it a vote; whether it is known what came of it.
    async fn enlarge(&mut self, spare: &mut Vec<Arc<Seat>>) -> bool {
        let voters = self.known().await.iter().filter(|member| member.votes).count();
        if voters == 0 || voters >= VOTERS_MAX {
            return true;
        }
        let Some(seat) = spare.pop() else { return true };
        let add = json!({"peer_address": seat.address()}).to_string();
        let Some(answer) = self.insist(Method::POST, "/v1/members", &[], &add).await else { return false };
        if answer.status != 201 {
            return true;
        }
        let id = answer.number("member_id");
        self.all.told(|oracle| {
            oracle.event(&format!("host {} may join as member {id}", seat.number));
            oracle.given(id);
        });
        let token = answer.json["token"].as_str().expect("a token").to_owned();
        *seat.invitation.lock().unwrap() = Some(token);
        self.all.members.lock().unwrap().push(seat.number);
        for _ in 0..40 {
            if seat.join.lock().unwrap().is_some() {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..6 {
            match self.insist(Method::POST, &format!("/v1/members/{id}/promote"), &[], "").await {
                Some(answer) if answer.status == 200 => {
                    self.all.told(|oracle| {
                        oracle.event(&format!("member {id} has a vote"));
                        oracle.counts.promoted += 1;
                    });
                    return true;
                }
                Some(_) => self.pause(150).await,
                None => return false,
            }
        }
        true
    }

    /// Takes anybody out, the leader as well.
    async fn shrink(&mut self) -> bool {
        let known = self.known().await;
        if known.iter().filter(|member| member.votes).count() <= VOTERS_MIN {
            return true;
        }
        let who = &known[self.rng.random_range(0..known.len())];
        self.take_out(who).await.is_some()
    }

    /// Whether it was taken out; none when nobody says.
    async fn take_out(&mut self, who: &Known) -> Option<bool> {
        let seat = self.all.seats.iter().find(|seat| seat.address() == who.address).expect("a host").clone();
        seat.leaving.store(true, Ordering::Relaxed);
        let path = format!("/v1/members/{}", who.id);
        let status = self.insist(Method::DELETE, &path, &[], "").await?.status.as_u16();
        self.all.told(|oracle| oracle.event(&format!("member {} is taken out: {status}", who.id)));
        if status == 200 {
            self.all.members.lock().unwrap().retain(|number| *number != seat.number);
            self.all.told(|oracle| oracle.counts.removed += 1);
        }
        Some(matches!(status, 200 | 404))
    }

    /// Has a member die for good when the group can do without it, takes it out and adds another.
    async fn replace(&mut self, spare: &mut Vec<Arc<Seat>>) -> bool {
        let known = self.known().await;
        let voters: Vec<&Known> = known.iter().filter(|member| member.votes).collect();
        if voters.len() <= VOTERS_MIN {
            return true;
        }
        let who = voters[self.rng.random_range(0..voters.len())];
        let seat = self.all.seats.iter().find(|seat| seat.address() == who.address).expect("a host").clone();
        *self.all.doomed.lock().unwrap() = Some(seat.number);
        for _ in 0..15 {
            sleep(Duration::from_millis(40)).await;
            if is(&seat.dead) {
                break;
            }
        }
        *self.all.doomed.lock().unwrap() = None;
        if !is(&seat.dead) {
            return true;
        }
        while !self.all.healed() && self.take_out(who).await != Some(true) {
            self.pause(200).await;
        }
        self.enlarge(spare).await
    }

    async fn transfer(&mut self) -> bool {
        let known = self.known().await;
        if let Some(member) = known.get(self.rng.random_range(0..known.len().max(1))) {
            let path = format!("/v1/members/{}/transfer-leadership", member.id);
            self.insist(Method::POST, &path, &[], "").await;
        }
        true
    }

    /// Whether no dead member is left in the group.
    async fn bury(&mut self) -> bool {
        let known = self.known().await;
        let dead =
            |member: &&Known| self.all.seats.iter().any(|seat| is(&seat.dead) && seat.address() == member.address);
        let dead = known.iter().find(dead);
        match dead {
            Some(member) => {
                self.take_out(member).await;
                false
            }
            None => !known.is_empty(),
        }
    }
}
