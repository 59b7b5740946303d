//! An ordered map whose copies share what neither has changed. A copy costs the same for any size, changing one entry
//! copies one leaf of a few entries, and two copies are compared at the cost of what is different between them.
//!
//! Entries stand in leaves of at most [`LEAF_MAX`], the leaves in one list: with the few thousand entries that the state
//! allows that is as quick as a tree, and it is small enough to be looked through.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Index;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most entries of a leaf; a fuller one is split in two.
const LEAF_MAX: usize = 32;

/// Never empty.
type Leaf<K, V> = Arc<Vec<(K, V)>>;

/// The map; see above. Serialised as a map, ascending by key.
pub struct SharedMap<K, V> {
    leaves: Arc<Vec<Leaf<K, V>>>,
    len: usize,
}

impl<K, V> SharedMap<K, V> {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self { leaves: Arc::default(), len: 0 }
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, ascending by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { leaves: self.leaves.iter(), leaf: [].iter(), left: self.len }
    }

    /// The keys, ascending.
    #[must_use]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    #[must_use]
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Whether this is a copy of the other that neither has changed since.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.leaves, &other.leaves)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.find(key);
        let place = place.ok()?;
        Some(&self.leaves[leaf][place].1)
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).1.is_ok()
    }

    /// The leaf where the key is or belongs (0 in the empty map, which has none), and its place there.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        let after = self.leaves.partition_point(|leaf| leaf[0].0.borrow() <= key);
        let leaf = after.saturating_sub(1);
        let place = self.leaves.get(leaf).map_or(Err(0), |leaf| leaf.binary_search_by(|(at, _)| at.borrow().cmp(key)));
        (leaf, place)
    }

    /// What is different in `after`, ascending by key: the key, the value here and the value there. Values for which
    /// `same` holds are left out; it is not asked about what both share.
    pub fn differences<'a>(
        &'a self,
        after: &'a Self,
        same: impl Fn(&V, &V) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> + 'a {
        let (mut here, mut there) = (Cursor::of(self), Cursor::of(after));
        std::iter::from_fn(move || {
            loop {
                here.skip_shared(&mut there);
                let order = match (here.entry(), there.entry()) {
                    (None, None) => return None,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(a), Some(b)) => a.0.cmp(&b.0),
                };
                let old = if order.is_le() { here.take() } else { None };
                let new = if order.is_ge() { there.take() } else { None };
                match (old, new) {
                    (Some((_, old)), Some((_, new))) if same(old, new) => {}
                    (old, new) => {
                        let (key, _) = new.or(old).expect("one of them is there");
                        return Some((key, old.map(|(_, value)| value), new.map(|(_, value)| value)));
                    }
                }
            }
        })
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.find(key);
        let place = place.ok()?;
        let leaf = Arc::make_mut(&mut Arc::make_mut(&mut self.leaves)[leaf]);
        Some(&mut leaf[place].1)
    }

    /// Gives a key a value; the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (number, place) = self.find(&key);
        let leaves = Arc::make_mut(&mut self.leaves);
        let Some(leaf) = leaves.get_mut(number).map(Arc::make_mut) else {
            leaves.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        };
        let place = match place {
            Ok(place) => return Some(std::mem::replace(&mut leaf[place].1, value)),
            Err(place) => place,
        };
        leaf.insert(place, (key, value));
        self.len += 1;
        if leaf.len() > LEAF_MAX {
            // Keys that come in ascending order fill their leaves.
            let at = if place + 1 == leaf.len() { LEAF_MAX } else { LEAF_MAX / 2 };
            let upper = leaf.split_off(at);
            leaves.insert(number + 1, Arc::new(upper));
        }
        None
    }

    /// Removes a key; the value it had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (number, place) = self.find(key);
        let place = place.ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[number]);
        let (_, value) = leaf.remove(place);
        self.len -= 1;
        let left = leaf.len();
        if left == 0 {
            leaves.remove(number);
        } else if left <= LEAF_MAX / 4 {
            // Small leaves join the next, so that there are never many of them.
            if let Some(next) = leaves.get(number + 1).filter(|next| left + next.len() <= LEAF_MAX / 2).cloned() {
                Arc::make_mut(&mut leaves[number]).extend(next.iter().cloned());
                leaves.remove(number + 1);
            }
        }
        Some(value)
    }

    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let gone: Vec<K> = self.iter().filter(|(key, value)| !keep(key, value)).map(|(key, _)| key.clone()).collect();
        for key in &gone {
            self.remove(key);
        }
    }
}

/// A place in a map.
struct Cursor<'a, K, V> {
    leaves: &'a [Leaf<K, V>],
    place: usize,
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn of(map: &'a SharedMap<K, V>) -> Self {
        Self { leaves: &map.leaves, place: 0 }
    }

    fn entry(&self) -> Option<&'a (K, V)> {
        self.leaves.first().map(|leaf| &leaf[self.place])
    }

    fn take(&mut self) -> Option<&'a (K, V)> {
        let entry = self.entry()?;
        self.place += 1;
        if self.place == self.leaves[0].len() {
            (self.leaves, self.place) = (&self.leaves[1..], 0);
        }
        Some(entry)
    }

    /// Both go on after the leaves that both have. Both come to the beginning of such a leaf at the same time, because
    /// everything before it has lower keys.
    fn skip_shared(&mut self, other: &mut Self) {
        while let (0, 0, [mine, rest @ ..], [theirs, others @ ..]) =
            (self.place, other.place, self.leaves, other.leaves)
            && Arc::ptr_eq(mine, theirs)
        {
            (self.leaves, other.leaves) = (rest, others);
        }
    }
}

/// The entries of a [`SharedMap`], ascending by key.
pub struct Iter<'a, K, V> {
    leaves: std::slice::Iter<'a, Leaf<K, V>>,
    leaf: std::slice::Iter<'a, (K, V)>,
    left: usize,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self { leaves: self.leaves.clone(), leaf: self.leaf.clone(), left: self.left }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = if let Some(entry) = self.leaf.next() {
            entry
        } else {
            self.leaf = self.leaves.next()?.iter();
            self.leaf.next()?
        };
        self.left -= 1;
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}
impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;
    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { leaves: Arc::clone(&self.leaves), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len == other.len && self.differences(other, V::eq).next().is_none())
    }
}

impl<K: Ord, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for SharedMap<K, V> {
    type Output = V;
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key is in the map")
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Serialize, V: Serialize> Serialize for SharedMap<K, V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

impl<'de, K: Deserialize<'de> + Ord + Clone, V: Deserialize<'de> + Clone> Deserialize<'de> for SharedMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de> + Ord + Clone, V: Deserialize<'de> + Clone> Visitor<'de> for Entries<K, V> {
    type Value = SharedMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = SharedMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests;
