//! Files appear whole or not at all, each alone or all of a command together.
//!
//! A file is written to a temporary beside its place, then renamed. Within a [`Transaction`] the renames wait for the end:
//! a command that fails or is stopped has changed nothing. What was read within it is not replaced.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tempfile::TempPath;

use crate::IoError;
use crate::scratch::Failure;

/// Links that are followed before they count as a circle; as many as Linux follows.
const MAX_LINKS: usize = 40;
/// How the names of temporaries begin.
const PREFIX: &str = ".bonesmith-";

thread_local! {
    /// The transaction of this thread.
    static OPEN: RefCell<Option<Pending>> = const { RefCell::new(None) };
}

/// Every temporary that was made, also those that are gone.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Part of the names of temporaries, see [`tag_temporaries`].
static TAG: OnceLock<String> = OnceLock::new();

/// What a transaction knows.
#[derive(Default)]
struct Pending {
    /// Files that were read, by their real names.
    read: Vec<PathBuf>,
    /// Files that are to appear, in order.
    written: Vec<Prepared>,
    /// Of scratch files: after one of them what is to appear is not sound.
    failures: Vec<Failure>,
}

/// A file that is written, but not in its place.
struct Prepared {
    /// As the user named it.
    path: PathBuf,
    /// Where it goes: `path`, or what a link of this name leads to.
    place: PathBuf,
    content: TempPath,
    /// A file that belongs to it.
    buffer: Option<Buffer>,
}

/// A file that another one names.
struct Buffer {
    file: Box<Prepared>,
    /// The other one with the name of the buffer's temporary in it; sound while both are replaced.
    stand_in: TempPath,
}

/// Writes of one thread that take effect together. Readers on this thread already see them; on another it does nothing.
pub struct Transaction(());

impl Transaction {
    /// From now on nothing is replaced until [`Transaction::commit`]. There is one at a time on a thread.
    pub fn begin() -> Self {
        OPEN.set(Some(Pending::default()));
        Self(())
    }

    /// Fails if a scratch file could not be written or read so far: what is made of it is not sound.
    pub fn check(&self) -> Result<(), IoError> {
        OPEN.with_borrow(|open| open.iter().flat_map(|open| &open.failures).try_for_each(Failure::check))
    }

    /// Puts all files into their places; more may follow.
    pub fn commit(&self) -> Result<(), IoError> {
        self.check()?;
        let written = OPEN.with_borrow_mut(|open| open.as_mut().map(|open| std::mem::take(&mut open.written)));
        written.unwrap_or_default().into_iter().try_for_each(Prepared::put)
    }

    /// Whether a file was read since the beginning, itself or as part of another.
    pub fn has_read(&self, path: &Path) -> bool {
        was_read(path)
    }

    /// The files that were read on this thread, by their real names; those that were written within the transaction are not among them.
    pub fn files_read(&self) -> Vec<PathBuf> {
        let is_temporary = |path: &Path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
        let read = OPEN.with_borrow(|open| open.as_ref().map(|open| open.read.clone()).unwrap_or_default());
        read.into_iter().filter(|path| !is_temporary(path)).collect()
    }
}

/// The transaction of this thread commits nothing after this failure.
pub(crate) fn depend_on(failure: Failure) {
    OPEN.with_borrow_mut(|open| open.iter_mut().for_each(|open| open.failures.push(failure.clone())));
}

impl Drop for Transaction {
    fn drop(&mut self) {
        OPEN.set(None);
    }
}

/// Writes `bytes` to a temporary beside `path`, then renames it: a crash or a full disk never leaves half a file
/// or eats the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write`], for content that is made piece by piece.
pub fn write_with(path: &Path, make: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), IoError> {
    finish(prepare(path, make)?)
}

/// Writes a file and its buffer, which it names: `make` gives its bytes for a file name. At no time does the file name a
/// buffer that is not its own, unless links lead the two into different folders.
pub fn write_pair(
    path: &Path,
    buffer_path: &Path,
    buffer: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    make: impl Fn(&OsStr) -> Result<Vec<u8>, IoError>,
) -> Result<(), IoError> {
    let buffer = prepare(buffer_path, buffer)?;
    let content = make(buffer_path.file_name().unwrap_or_default())?;
    let passing = make(buffer.content.file_name().unwrap_or_default())?;
    let mut whole = prepare(path, |file| file.write_all(&content))?;
    let stand_in = prepare(path, |file| file.write_all(&passing))?.content;
    whole.buffer = Some(Buffer { file: Box::new(buffer), stand_in });
    finish(whole)
}

/// Where a file of this name goes: links are followed. A folder, a device, a pipe, a file that must not be changed are
/// refused.
pub fn place_of(path: &Path) -> Result<PathBuf, IoError> {
    let os = |source| IoError::os(path, source);
    let mut place = path.to_owned();
    let mut links = 0;
    while let Ok(next) = fs::read_link(&place) {
        place = folder_of(&place).join(next);
        links += 1;
        if links > MAX_LINKS {
            return Err(IoError::unsupported(path, "is a circle of links"));
        }
    }
    match fs::metadata(&place) {
        Ok(found) if found.is_file() => {
            // Not by its mode: who may write is the system's business.
            fs::OpenOptions::new().append(true).open(&place).map_err(os)?;
        }
        Ok(found) => {
            return Err(IoError::unsupported(path, format!("is {}; only files are written", kind(&found))));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(os(error)),
    }
    Ok(place)
}

/// What is at a place, in words.
pub(crate) fn kind(found: &Metadata) -> &'static str {
    if found.is_dir() {
        return "a folder";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.file_type().is_fifo() {
            return "a pipe";
        }
        if found.file_type().is_socket() {
            return "a socket";
        }
    }
    if found.is_file() { "a file" } else { "a device" }
}

/// The temporary that holds the content of `path` until the end of the transaction.
pub(crate) fn pending(path: &Path) -> Option<PathBuf> {
    OPEN.with_borrow(|open| {
        let mut files = open.as_ref()?.written.iter().flat_map(|file| [Some(file), file.buffer()]).flatten();
        files.find(|file| file.path == path).map(|file| file.content.to_path_buf())
    })
}

/// Notes that a file is read.
pub(crate) fn note_read(path: &Path) {
    OPEN.with_borrow_mut(|open| {
        let Some(open) = open else { return };
        if let Ok(real) = path.canonicalize()
            && !open.read.contains(&real)
        {
            open.read.push(real);
        }
    });
}

/// Removes what was not put into its place. For a program that ends at once; other threads must not write afterwards.
pub fn remove_temporaries() {
    temporaries().iter().for_each(|path| _ = fs::remove_file(path));
}

/// From now on the names of temporaries of this process have `tag` in them, so that another process finds them should this one be
/// killed. The first tag counts.
pub fn tag_temporaries(tag: &str) {
    let _ = TAG.set(format!("{tag}-"));
}

/// Removes the temporaries of a folder whose tag is one of these. What cannot be removed stays.
pub fn remove_tagged(folder: &Path, is_one: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let tag = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if tag.is_some_and(|(tag, _)| is_one(tag)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn was_read(path: &Path) -> bool {
    let real = path.canonicalize().ok();
    let found = |real| OPEN.with_borrow(|open| open.as_ref().is_some_and(|open| open.read.contains(&real)));
    real.is_some_and(found)
}

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Stands before every system call that changes something: tests make each of them fail in turn.
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use tests::step;

/// Writes a temporary beside the place of `path`.
fn prepare(path: &Path, make: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<Prepared, IoError> {
    let os = |source| IoError::os(path, source);
    let place = place_of(path)?;
    if was_read(&place) {
        return Err(IoError::unsupported(path, "is also read by this command; it would be overwritten"));
    }
    let (file, content) = step().and_then(|()| new_temporary(folder_of(&place))).map_err(os)?.into_parts();
    temporaries().push(content.to_path_buf());
    let mut file = BufWriter::new(file);
    step().and_then(|()| make(&mut file)).map_err(os)?;
    let file = file.into_inner().map_err(|e| os(e.into_error()))?;
    if let Ok(old) = fs::metadata(&place) {
        step().and_then(|()| file.set_permissions(old.permissions())).map_err(os)?;
    }
    step().and_then(|()| file.sync_all()).map_err(os)?;
    Ok(Prepared { path: path.to_owned(), place, content, buffer: None })
}

/// Into its place now, or at the end of the transaction.
fn finish(file: Prepared) -> Result<(), IoError> {
    let now = OPEN.with_borrow_mut(|open| match open {
        None => Some(file),
        Some(open) => {
            open.written.retain(|other| other.place != file.place);
            open.written.push(file);
            None
        }
    });
    now.map_or(Ok(()), Prepared::put)
}

impl Prepared {
    fn buffer(&self) -> Option<&Prepared> {
        self.buffer.as_ref().map(|buffer| &*buffer.file)
    }

    fn put(self) -> Result<(), IoError> {
        // Not in the middle of `remove_temporaries`.
        let _alone = temporaries();
        let Self { path, place, content, buffer } = self;
        let os = |source| IoError::os(&path, source);
        let rename = |from: TempPath, to: &Path| {
            step().map_err(os)?;
            from.persist(to).map_err(|e| os(e.error))
        };
        let Some(Buffer { file: buffer, stand_in }) = buffer else { return rename(content, &place) };
        let folder = folder_of(&place);
        // Another program that writes the same two files waits; where folders cannot be locked it does not.
        let lock = File::open(folder).ok();
        let _locked = lock.as_ref().map(File::lock);
        let link = buffer.content.with_extension("link");
        let linked =
            folder_of(&buffer.place) == folder && step().and_then(|()| fs::hard_link(&buffer.content, &link)).is_ok();
        if !linked {
            rename(buffer.content, &buffer.place)?;
            return rename(content, &place);
        }
        // The new file with its buffer under a passing name; the buffer under its own name; the file that names it so.
        let done = rename(stand_in, &place)
            .and_then(|()| step().and_then(|()| fs::rename(&link, &buffer.place)).map_err(os))
            .and_then(|()| rename(content, &place));
        let _ = fs::remove_file(&link);
        if done.is_err() && names(&place, &buffer.content) {
            // What is there is sound, and needs the buffer under its passing name.
            let _ = buffer.content.keep();
        }
        done
    }
}

/// Whether the file at `place` is the one that stands in while it is replaced: it names the buffer's temporary.
fn names(place: &Path, temporary: &Path) -> bool {
    let name = temporary.file_name().unwrap_or_default().as_encoded_bytes();
    fs::read(place).is_ok_and(|bytes| bytes.windows(name.len().max(1)).any(|part| part == name))
}

/// A temporary with the permissions of an ordinary new file: by default only the owner could read the output.
fn new_temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!("{PREFIX}{}", TAG.get().map_or("", String::as_str));
    builder.prefix(&prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Set in a process that ends in the middle of its writes: after how many steps.
    const KILLED_AFTER: &str = "BONESMITH_KILLED_AFTER";

    thread_local! {
        /// Steps until one fails, and all after it.
        static STEPS_LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    pub fn step() -> io::Result<()> {
        match STEPS_LEFT.get() {
            // No destructor runs, as in a process that is killed.
            0 if std::env::var_os(KILLED_AFTER).is_some() => std::process::exit(9),
            0 => Err(io::Error::other("no space left")),
            left => {
                STEPS_LEFT.set(left.saturating_sub(usize::from(left < usize::MAX)));
                Ok(())
            }
        }
    }

    /// Every system call fails in turn, and all after it: there is the old file or the new one, and no other.
    #[test]
    fn whatever_fails_the_old_file_is_there_or_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, main, buffer] = ["a.glb", "b.gltf", "b.bin"].map(|name| folder.path().join(name));
        let put = |mark: &str| {
            let transaction = Transaction::begin();
            write(&plain, mark.as_bytes())?;
            let text = |name: &OsStr| Ok(format!("{mark}:{}", name.to_str().unwrap()).into_bytes());
            write_pair(&main, &buffer, |file| file.write_all(mark.as_bytes()), text)?;
            transaction.commit()
        };
        put("old").unwrap();
        let mut steps = 0;
        loop {
            STEPS_LEFT.set(steps);
            let done = put("new");
            STEPS_LEFT.set(usize::MAX);
            let text = |path: &Path| fs::read_to_string(path).unwrap();
            let (mark, name) = (text(&main), text(&main));
            let (mark, name) = (mark.split(':').next().unwrap(), name.split(':').nth(1).unwrap());
            assert_eq!(text(&folder.path().join(name)), mark, "step {steps}: the pair");
            assert!(["old", "new"].contains(&text(&plain).as_str()), "step {steps}");
            let passing = usize::from(name != "b.bin");
            assert_eq!(count(folder.path()), 3 + passing, "step {steps}: a stray file");
            if done.is_ok() {
                assert_eq!((text(&plain).as_str(), mark, name), ("new", "new", "b.bin"));
                break;
            }
            steps += 1;
            fs::read_dir(folder.path()).unwrap().for_each(|e| fs::remove_file(e.unwrap().path()).unwrap());
            put("old").unwrap();
        }
        assert!(steps > 15, "{steps} steps");
    }

    /// A process that is killed before any of its system calls: there is the old file or the new one, the pair fits together, and
    /// beside them are only temporaries, which the next write does not mind.
    #[test]
    fn killed_anywhere_the_old_file_is_there_or_the_new_one() {
        let place = |folder: &Path| ["a.glb", "b.gltf", "b.bin"].map(|name| folder.join(name));
        let put = |folder: &Path, mark: &str| {
            let [plain, main, buffer] = place(folder);
            let transaction = Transaction::begin();
            write(&plain, mark.as_bytes())?;
            let text = |name: &OsStr| Ok(format!("{mark}:{}", name.to_str().unwrap()).into_bytes());
            write_pair(&main, &buffer, |file| file.write_all(mark.as_bytes()), text)?;
            transaction.commit()
        };
        if let Some(steps) = std::env::var(KILLED_AFTER).ok().and_then(|steps| steps.parse().ok()) {
            STEPS_LEFT.set(steps);
            put(Path::new("."), "new").unwrap();
            return;
        }
        let (mut steps, mut done) = (0, false);
        while !done {
            let folder = tempfile::tempdir().unwrap();
            put(folder.path(), "old").unwrap();
            let name = "atomic::tests::killed_anywhere_the_old_file_is_there_or_the_new_one";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.current_dir(folder.path()).env(KILLED_AFTER, steps.to_string()).args(["--exact", name]);
            let status = child.output().unwrap().status;
            assert!(matches!(status.code(), Some(0 | 9)), "step {steps}: {status}");
            done = status.success();
            let [plain, main, _] = place(folder.path()).map(|path| fs::read_to_string(path).unwrap());
            assert!(["old", "new"].contains(&plain.as_str()), "step {steps}");
            let (mark, buffer) = main.split_once(':').unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(buffer)).unwrap(), mark, "step {steps}: the pair");
            for entry in fs::read_dir(folder.path()).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let known = ["a.glb", "b.gltf", "b.bin"].contains(&name.as_str());
                assert!(known || !done && name.starts_with(".bonesmith-"), "step {steps}: {name}");
            }
            put(folder.path(), "newest").unwrap();
            steps += 1;
        }
        assert!(steps > 15, "{steps} steps");
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::Error::other("disk full"))
        });
        assert!(matches!(failed, Err(IoError::Os { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(count(folder.path()), 1);
    }

    #[test]
    fn a_transaction_takes_effect_at_its_end_and_is_read_before() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        write(&a, b"old").unwrap();
        let transaction = Transaction::begin();
        write(&a, b"new").unwrap();
        write(&b, b"new").unwrap();
        assert_eq!((fs::read(&a).unwrap(), b.exists()), (b"old".to_vec(), false));
        assert_eq!(fs::read(pending(&b).unwrap()).unwrap(), b"new");
        transaction.commit().unwrap();
        assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"new".to_vec(), b"new".to_vec()));
        write(&a, b"newest").unwrap();
        drop(transaction);
        assert_eq!(fs::read(&a).unwrap(), b"new");
        assert_eq!(count(folder.path()), 2);
    }

    #[test]
    fn what_was_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        let transaction = Transaction::begin();
        note_read(&folder.path().join("../").join(folder.path().file_name().unwrap()).join("a"));
        assert!(transaction.has_read(&path));
        assert!(write(&path, b"new").unwrap_err().to_string().contains("overwritten"));
        drop(transaction);
        write(&path, b"new").unwrap();
    }

    /// Two writers at once: whatever is there in the end, and at any time, is the pair of one of them.
    #[test]
    fn a_file_and_its_buffer_are_one_unit() {
        let folder = tempfile::tempdir().unwrap();
        let [main, buffer] = ["a.gltf", "a.bin"].map(|name| folder.path().join(name));
        // Every write has its own mark, in both files.
        let put = |mark: &str| {
            let text = |name: &OsStr| Ok(format!("{mark}:{}", name.to_str().unwrap()).into_bytes());
            write_pair(&main, &buffer, |file| file.write_all(mark.as_bytes()), text).unwrap();
        };
        let sound = |seen: &str| {
            let (mark, name) = seen.split_once(':').unwrap();
            let bytes = fs::read_to_string(folder.path().join(name));
            // The buffer may have been replaced in between: then the file has been too.
            bytes.is_ok_and(|bytes| bytes == mark) || fs::read_to_string(&main).unwrap() != seen
        };
        put("x");
        std::thread::scope(|scope| {
            let writers = ["p", "q"].map(|name| scope.spawn(move || (0..40).for_each(|n| put(&format!("{name}{n}")))));
            while !writers.iter().all(|writer| writer.is_finished()) {
                let seen = fs::read_to_string(&main).unwrap();
                assert!(sound(&seen), "{seen}");
            }
        });
        let seen = fs::read_to_string(&main).unwrap();
        assert!(seen.ends_with("39:a.bin") && sound(&seen));
        assert_eq!(count(folder.path()), 2);
    }
}
