//! Paths: inside archives, of layers and of the stage.

/// `folder/asset` inside an archive, with `.` and `..` resolved.
pub fn joined(folder: &str, asset: &str) -> String {
    let mut parts: Vec<&str> = if asset.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in asset.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// `/a{set=variant}b` is `/a/b` to everybody else.
pub fn without_variants(path: &str) -> String {
    if !path.contains('{') {
        return path.to_owned();
    }
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
        if !rest.is_empty() && !rest.starts_with(['/', '.', '{']) {
            out.push('/');
        }
    }
    out + rest
}

/// Relative paths start at their prim.
pub fn absolute(own: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = own.split('/').collect();
    let mut rest = path;
    while let Some(after) = rest.strip_prefix("..") {
        parts.pop();
        rest = after.strip_prefix('/').unwrap_or(after);
    }
    let own = parts.join("/");
    if rest.is_empty() || rest.starts_with('.') { format!("{own}{rest}") } else { format!("{own}/{rest}") }
}

/// A path of a layer as one of the stage.
pub fn mapped(path: &str, from: &str, to: &str) -> String {
    match path.strip_prefix(from) {
        Some(_) if from == "/" => path.to_owned(),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '.']) => format!("{to}{rest}"),
        _ => path.to_owned(),
    }
}
