"""Share of a program's counters that were reached, by module, from the raw profile of `-C instrument-coverage`.

`python3 scripts/profraw.py FILE.profraw MODULE...`: a line for each module ("bonesmith_io::usd"). LLVM's own tools read only profiles of their own
version; this reads what is needed of the raw format (LLVM: compiler-rt/include/profile/InstrProfData.inc, versions 9 and 10): data records,
counters and names. A counter stands for a region of the source that is entered; regions that are sums of others have none.
"""
import hashlib
import re
import struct
import sys
import zlib

HEADER_FIELDS = {9: 14, 10: 16}
RECORD_BYTES = 64


def uleb(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def names_of(section):
    """Names by the number that records have for them: the first eight bytes of their MD5."""
    found, at = {}, 0
    while at < len(section):
        plain, at = uleb(section, at)
        packed, at = uleb(section, at)
        if plain == 0 and packed == 0:
            continue
        size = packed or plain
        text = section[at : at + size]
        text = zlib.decompress(text) if packed else text
        at += size
        for name in text.split(b"\x01"):
            found[struct.unpack("<Q", hashlib.md5(name).digest()[:8])[0]] = name.decode(errors="replace")
    return found


def functions(path):
    """(name, counters) of every function."""
    data = open(path, "rb").read()
    version = struct.unpack_from("<Q", data, 8)[0] & 0xFFFFFFFFFFFFFF
    if version not in HEADER_FIELDS:
        sys.exit(f"{path}: version {version} of the raw profile is not known")
    head = struct.unpack_from(f"<{HEADER_FIELDS[version]}Q", data)
    _, _, ids, records, before, counters, after, bitmap, after_bitmap, names_size, counters_delta = head[:11]
    at = 8 * HEADER_FIELDS[version] + ids
    counters_at = at + records * RECORD_BYTES + before
    names_at = counters_at + 8 * counters + after + bitmap + after_bitmap
    names = names_of(data[names_at : names_at + names_size])
    for r in range(records):
        name, _, pointer = struct.unpack_from("<QQQ", data, at + r * RECORD_BYTES)
        count = struct.unpack_from("<I", data, at + r * RECORD_BYTES + 48)[0]
        # The pointer is relative to its record, the delta to the first record.
        offset = (pointer - counters_delta + r * RECORD_BYTES) & 0xFFFFFFFFFFFFFFFF
        yield names.get(name, "?"), struct.unpack_from(f"<{count}Q", data, counters_at + offset)


def module(name):
    """The path of a mangled name (RFC 2603): "bonesmith_io::usd::layer". Disambiguators, references back and constants are left out."""
    parts, at = [], 0
    while at < len(name):
        if skipped := re.compile(r"(?:s|B|K[a-z])[0-9A-Za-z]*_").match(name, at):
            at = skipped.end()
            continue
        found = re.compile(r"([1-9][0-9]*)_?").match(name, at)
        word = name[found.end() : found.end() + int(found[1])] if found else ""
        if found and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word):
            parts.append(word)
            at = found.end() + len(word)
        else:
            at += 1
    return "::".join(parts)


def main():
    path, modules = sys.argv[1], sys.argv[2:]
    # Generic functions are there once for each set of types: reached where any of them was.
    reached = {}
    for name, counters in functions(path):
        key = (module(name), len(counters))
        old = reached.get(key, [False] * len(counters))
        reached[key] = [was or counter > 0 for was, counter in zip(old, counters)]
    for wanted in modules:
        mine = [hits for (name, _), hits in reached.items() if wanted in name]
        total, hit = sum(map(len, mine)), sum(map(sum, mine))
        entered = sum(any(hits) for hits in mine)
        if total:
            print(f"{wanted}: {100 * hit / total:.0f} % of {total} counters, {entered} of {len(mine)} functions")


main()
