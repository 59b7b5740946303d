//! Pages: a limit, and an opaque cursor that survives changes of the list between two pages.

use super::error::ApiError;
use super::query::ListQuery;
use crate::domain::hex;
use crate::wire::Page;

const LIMIT_DEFAULT: u16 = 100;
const LIMIT_MAX: u16 = 1000;

/// The number of entries asked for.
pub fn limit(query: &ListQuery) -> Result<usize, ApiError> {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        Ok(limit.into())
    } else {
        Err(ApiError::malformed(format!("limit is not in 1..={LIMIT_MAX}")).field("limit"))
    }
}

/// The key a cursor stands for.
pub fn after(query: &ListQuery) -> Result<Option<String>, ApiError> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    decode(cursor).map(Some).ok_or_else(|| ApiError::malformed("cursor is not one of this API").field("cursor"))
}

/// The cursor of a key.
pub fn cursor(key: &str) -> String {
    hex(key.as_bytes())
}

/// The page of entries that come after the cursor's key. `entries` are ascending by key.
pub fn page<E, T>(
    query: &ListQuery,
    entries: impl IntoIterator<Item = E>,
    key: impl Fn(&E) -> &str,
    show: impl Fn(E) -> T,
) -> Result<Page<T>, ApiError> {
    let (limit, after) = (limit(query)?, after(query)?);
    let mut entries =
        entries.into_iter().skip_while(|entry| after.as_deref().is_some_and(|after| key(entry) <= after)).peekable();
    let (mut items, mut next) = (Vec::new(), None);
    while let Some(entry) = entries.next() {
        if items.len() + 1 == limit && entries.peek().is_some() {
            next = Some(cursor(key(&entry)));
        }
        items.push(show(entry));
        if items.len() == limit {
            break;
        }
    }
    Ok(Page { items, next })
}

fn decode(cursor: &str) -> Option<String> {
    if cursor.len() > 512 || !cursor.len().is_multiple_of(2) || !cursor.is_ascii() {
        return None;
    }
    let bytes = cursor.as_bytes().chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair)
            .ok()
            .filter(|text| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))?;
        u8::from_str_radix(text, 16).ok()
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::query::Consistency;
    use super::*;

    fn query(limit: Option<u16>, cursor: Option<&str>) -> ListQuery {
        ListQuery { limit, cursor: cursor.map(str::to_owned), consistency: Consistency::Local }
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        let all = ["a", "b", "c", "d", "e"];
        for limit in 1..=6 {
            let (mut seen, mut cursor) = (Vec::new(), None);
            for _ in 0..10 {
                let page = page(&query(Some(limit), cursor.as_deref()), all, |e| e, |e| e).unwrap();
                assert!(page.items.len() <= limit.into());
                seen.extend(page.items);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(all.to_vec(), seen, "limit {limit}");
        }
    }

    #[test]
    fn bad_limits_and_cursors_are_malformed() {
        let status = |limit, cursor| page(&query(limit, cursor), ["a"], |e| e, |e| e).unwrap_err().status().as_u16();
        for (limit, cursor) in [
            (Some(0), None),
            (Some(1001), None),
            (None, Some("x")),
            (None, Some("zz")),
            (None, Some("+1")),
            (None, Some("6A")),
        ] {
            assert_eq!(400, status(limit, cursor), "{limit:?} {cursor:?}");
        }
    }
}
