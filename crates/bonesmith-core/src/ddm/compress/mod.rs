//! Compression (next).
