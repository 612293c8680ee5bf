//! Modes `TRIANGLES` and `INDICES`: indices of vertices.
//!
//! Triangles are decoded one code byte at a time: most share an edge with a recent triangle, and their third vertex is a new one or a
//! recent one. The code keeps the order of triangles and their winding; which corner is first may change.

const TRIANGLES: u8 = 0xe1;
const INDICES: u8 = 0xd1;
const TABLE: usize = 16;
/// Recent edges that a triangle can be behind.
pub const EDGES: usize = 15;
/// Ages of recent vertices that the third one can be.
pub const THIRD: std::ops::Range<usize> = 1..13;
const CUT: &str = "the stream ends too early";

/// Edges and vertices that were used last, latest first.
pub struct Recent {
    edges: [(u32, u32); 16],
    vertices: [u32; 16],
    edge: usize,
    vertex: usize,
}

impl Recent {
    fn new() -> Self {
        Self { edges: [(u32::MAX, u32::MAX); 16], vertices: [u32::MAX; 16], edge: 0, vertex: 0 }
    }

    fn push_edge(&mut self, a: u32, b: u32) {
        self.edges[self.edge] = (a, b);
        self.edge = (self.edge + 1) % 16;
    }

    fn push_vertex(&mut self, v: u32) {
        self.vertices[self.vertex] = v;
        self.vertex = (self.vertex + 1) % 16;
    }

    /// An edge as a triangle behind it has it.
    pub fn edge(&self, age: usize) -> (u32, u32) {
        self.edges[(self.edge + 15 - age) % 16]
    }

    /// A vertex.
    pub fn vertex(&self, age: usize) -> u32 {
        self.vertices[(self.vertex + 15 - age) % 16]
    }
}

/// Numbers of 7 bits per byte.
fn read_varint(data: &mut &[u8]) -> Result<u32, String> {
    let mut value = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = data.split_first().ok_or(CUT)?;
        *data = rest;
        value |= u32::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Ok(value);
        }
    }
    Err("a number has more than 5 bytes".into())
}

fn write_varint(mut value: u32, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn unzigzag(v: u32) -> u32 {
    if v & 1 == 1 { !(v >> 1) } else { v >> 1 }
}

fn zigzag(v: u32) -> u32 {
    if v & 0x8000_0000 != 0 { !(v << 1) } else { v << 1 }
}

/// State of a stream of triangles.
pub struct State {
    /// What the next triangle can refer to in one byte.
    pub recent: Recent,
    /// The lowest vertex that was not used yet.
    pub next: u32,
    /// The last vertex that was written as a number.
    pub last: u32,
}

impl State {
    /// Nothing was written.
    pub fn new() -> Self {
        Self { recent: Recent::new(), next: 0, last: 0 }
    }

    /// Continues with a triangle; returns its bytes.
    pub fn push(&mut self, triangle: [u32; 3]) -> usize {
        let Coded { aux, data, .. } = encode_one(self, triangle);
        1 + usize::from(aux.is_some()) + data.len()
    }

    fn take_next(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next.wrapping_sub(1)
    }

    fn explicit(&mut self, data: &mut &[u8]) -> Result<u32, String> {
        self.last = self.last.wrapping_add(unzigzag(read_varint(data)?));
        Ok(self.last)
    }

    /// A triangle behind the recent edge (a, b).
    fn behind_edge(&mut self, code: u8, data: &mut &[u8]) -> Result<[u32; 3], String> {
        let (a, b) = self.recent.edge(usize::from(code >> 4));
        let kind = code & 15;
        let c = match kind {
            0 => self.take_next(),
            1..=12 => self.recent.vertex(usize::from(kind)),
            13 => self.last.wrapping_sub(1),
            14 => self.last.wrapping_add(1),
            _ => self.explicit(data)?,
        };
        if kind > 12 {
            self.last = c;
        }
        self.recent.push_edge(c, b);
        self.recent.push_edge(a, c);
        if kind == 0 || kind > 12 {
            self.recent.push_vertex(c);
        }
        Ok([a, b, c])
    }

    /// A triangle of its own: `aux` says what its second and third vertex are.
    fn alone(&mut self, first_is_next: bool, aux: u8, data: &mut &[u8]) -> Result<[u32; 3], String> {
        let a = if first_is_next { self.take_next() } else { self.explicit(data)? };
        let mut other = |state: &mut Self, kind: u8| match kind {
            0 => Ok(state.take_next()),
            15 => state.explicit(data),
            kind => Ok(state.recent.vertex(usize::from(kind) - 1)),
        };
        let (z, w) = (aux >> 4, aux & 15);
        let b = other(self, z)?;
        let c = other(self, w)?;
        self.remember_alone([a, b, c], z, w);
        Ok([a, b, c])
    }

    fn remember_alone(&mut self, [a, b, c]: [u32; 3], z: u8, w: u8) {
        self.recent.push_edge(b, a);
        self.recent.push_edge(c, b);
        self.recent.push_edge(a, c);
        self.recent.push_vertex(a);
        if matches!(z, 0 | 15) {
            self.recent.push_vertex(b);
        }
        if matches!(w, 0 | 15) {
            self.recent.push_vertex(c);
        }
    }
}

/// `count` indices, three to a triangle.
pub fn decode_triangles(bytes: &[u8], count: usize) -> Result<Vec<u32>, String> {
    if !count.is_multiple_of(3) {
        return Err(format!("{count} indices are no triangles"));
    }
    let body = bytes.strip_prefix(&[TRIANGLES]).ok_or("the stream does not start as triangles do")?;
    let (body, table) = body.split_at_checked(body.len().wrapping_sub(TABLE)).ok_or("the stream has no tail")?;
    let (codes, mut data) = body.split_at_checked(count / 3).ok_or(CUT)?;
    let mut state = State::new();
    let mut out = Vec::with_capacity(count);
    for &code in codes {
        let triangle = match code {
            0xf0..=0xfd => state.alone(true, table[usize::from(code & 15)], &mut data)?,
            0xfe | 0xff => {
                let (&aux, rest) = data.split_first().ok_or(CUT)?;
                data = rest;
                if aux == 0 {
                    state.next = 0;
                }
                state.alone(code == 0xfe, aux, &mut data)?
            }
            code => state.behind_edge(code, &mut data)?,
        };
        out.extend(triangle);
    }
    if !data.is_empty() {
        return Err(format!("{} bytes of the stream are left over", data.len()));
    }
    Ok(out)
}

/// `count` indices in any order.
pub fn decode(bytes: &[u8], count: usize) -> Result<Vec<u32>, String> {
    let body = bytes.strip_prefix(&[INDICES]).ok_or("the stream does not start as indices do")?;
    let (mut data, _) = body.split_at_checked(body.len().wrapping_sub(4)).ok_or("the stream has no tail")?;
    let mut last = [0u32; 2];
    let mut out = Vec::with_capacity(count.min(data.len()));
    for _ in 0..count {
        let value = read_varint(&mut data)?;
        let last = &mut last[(value & 1) as usize];
        *last = last.wrapping_add(unzigzag(value >> 1));
        out.push(*last);
    }
    if !data.is_empty() {
        return Err(format!("{} bytes of the stream are left over", data.len()));
    }
    Ok(out)
}

/// What the encoder says about one triangle.
struct Coded {
    code: u8,
    /// For triangles of their own.
    aux: Option<u8>,
    data: Vec<u8>,
}

/// Triangles as a stream.
pub fn encode_triangles(triangles: &[[u32; 3]]) -> Vec<u8> {
    let mut state = State::new();
    let coded: Vec<Coded> = triangles.iter().map(|triangle| encode_one(&mut state, *triangle)).collect();
    let table = common_kinds(&coded);
    let mut out = Vec::with_capacity(1 + 2 * triangles.len() + TABLE);
    let mut data = Vec::new();
    out.push(TRIANGLES);
    for Coded { code, aux, data: own } in coded {
        let short = aux.filter(|_| code == 0xfe).and_then(|aux| table.iter().position(|kind| *kind == aux));
        match (aux, short) {
            (_, Some(place)) => out.push(0xf0 | place as u8),
            (Some(aux), None) => {
                out.push(code);
                data.push(aux);
            }
            (None, None) => out.push(code),
        }
        data.extend(own);
    }
    out.extend(data);
    out.extend(&table);
    out.resize(out.len() + TABLE - table.len(), 0);
    out
}

/// The kinds of triangles that get a code byte of their own: 0 always, for it cannot be written in full.
fn common_kinds(coded: &[Coded]) -> Vec<u8> {
    let mut counts = [0usize; 256];
    for aux in coded.iter().filter(|coded| coded.code == 0xfe).filter_map(|coded| coded.aux) {
        counts[usize::from(aux)] += 1;
    }
    let writable = |aux: &u8| *aux != 0 && *aux >> 4 != 15 && *aux & 15 != 15 && counts[usize::from(*aux)] > 0;
    let mut kinds: Vec<u8> = (0..=255).filter(writable).collect();
    kinds.sort_by_key(|&aux| (std::cmp::Reverse(counts[usize::from(aux)]), aux));
    kinds.truncate(13);
    kinds.insert(0, 0);
    kinds
}

fn encode_one(state: &mut State, [a, b, c]: [u32; 3]) -> Coded {
    let turned = [[a, b, c], [b, c, a], [c, a, b]];
    for age in 0..EDGES {
        let edge = state.recent.edge(age);
        if let Some(&triangle) = turned.iter().find(|[a, b, _]| (*a, *b) == edge) {
            return encode_behind(state, age, triangle);
        }
    }
    // With a new vertex first, the code has fewer bytes.
    let first = turned.into_iter().find(|triangle| triangle[0] == state.next);
    encode_alone(state, first.unwrap_or([a, b, c]))
}

fn encode_behind(state: &mut State, age: usize, [a, b, c]: [u32; 3]) -> Coded {
    let recent = THIRD.clone().find(|&age| state.recent.vertex(age) == c);
    let mut data = Vec::new();
    let kind = if c == state.next {
        state.take_next();
        0
    } else if let Some(age) = recent {
        age as u8
    } else {
        let delta = c.wrapping_sub(state.last);
        state.last = c;
        match delta {
            u32::MAX => 13,
            1 => 14,
            _ => {
                write_varint(zigzag(delta), &mut data);
                15
            }
        }
    };
    state.recent.push_edge(c, b);
    state.recent.push_edge(a, c);
    if kind == 0 || kind > 12 {
        state.recent.push_vertex(c);
    }
    Coded { code: (age as u8) << 4 | kind, aux: None, data }
}

fn encode_alone(state: &mut State, [a, b, c]: [u32; 3]) -> Coded {
    let mut data = Vec::new();
    let mut explicit = |state: &mut State, v: u32| {
        write_varint(zigzag(v.wrapping_sub(state.last)), &mut data);
        state.last = v;
    };
    let first_is_next = a == state.next;
    if first_is_next {
        state.take_next();
    } else {
        explicit(state, a);
    }
    let mut kind = |state: &mut State, v: u32| {
        if v == state.next {
            state.take_next();
            return 0;
        }
        match (0..14).find(|&age| state.recent.vertex(age) == v) {
            Some(age) => age as u8 + 1,
            None => {
                explicit(state, v);
                15
            }
        }
    };
    let z = kind(state, b);
    let w = kind(state, c);
    state.remember_alone([a, b, c], z, w);
    Coded { code: if first_is_next { 0xfe } else { 0xff }, aux: Some(z << 4 | w), data }
}
