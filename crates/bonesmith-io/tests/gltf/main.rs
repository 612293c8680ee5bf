//! glTF in and out: round trips, real files, broken files, and files for the outside judges.

mod judges;
mod rigs;
