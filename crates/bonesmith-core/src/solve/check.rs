//! Refusals: of anything unsound, and of tables that grow with the square of something.

/// Refuses what is not `sound`.
pub(crate) fn ensure<E>(sound: bool, error: impl FnOnce() -> E) -> Result<(), E> {
    if sound { Ok(()) } else { Err(error()) }
}

/// Most that one table may take: 2 GiB.
const MAX_BYTES: usize = 1 << 31;

/// Refuses tables that would not fit into memory, before they are made: `rows x columns` of `size` bytes each.
pub(crate) fn check_memory(what: &str, rows: usize, columns: usize, size: usize) -> Result<(), String> {
    let bytes = rows.saturating_mul(columns).saturating_mul(size);
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    let (needed, most) = (gib(bytes), gib(MAX_BYTES));
    let refused =
        || format!("{what} would be {rows} x {columns} numbers, {needed:.1} GiB; at most {most} GiB are allowed");
    ensure(bytes <= MAX_BYTES, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_are_refused_with_their_size() {
        assert_eq!(check_memory("weights", 1000, 2048, 10), Ok(()));
        let refused = check_memory("weights", 1 << 20, 1024, 10).unwrap_err();
        assert_eq!(refused, "weights would be 1048576 x 1024 numbers, 10.0 GiB; at most 2 GiB are allowed");
        assert!(check_memory("products", usize::MAX, 3, 8).is_err());
    }
}
