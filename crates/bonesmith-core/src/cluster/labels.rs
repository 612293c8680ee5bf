//! Clusters as one label for each vertex.

use std::cmp::Reverse;

/// Gives every one of `count` clusters that has no vertex the one of largest `error` from the clusters with more than one.
pub(crate) fn fill_empty(labels: &mut [u16], count: usize, mut error: impl FnMut(usize, u16) -> f64) {
    let mut sizes = vec![0usize; count];
    labels.iter().for_each(|&j| sizes[usize::from(j)] += 1);
    if sizes.iter().all(|&size| size > 0) {
        return;
    }
    let mut worst: Vec<(f64, usize)> = labels.iter().enumerate().map(|(i, &j)| (error(i, j), i)).collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut candidates = worst.into_iter().map(|(_, i)| i);
    for j in 0..count {
        if sizes[j] == 0
            && let Some(i) = candidates.find(|&i| sizes[usize::from(labels[i])] > 1)
        {
            sizes[usize::from(labels[i])] -= 1;
            sizes[j] = 1;
            labels[i] = j as u16;
        }
    }
}

/// [N] the label that most faces of a vertex have, of those the smallest; `None` where no face has the vertex.
pub(crate) fn majority<F: IntoIterator<Item = usize>>(
    vertices: usize,
    faces: impl Iterator<Item = (F, u16)>,
) -> Vec<Option<u16>> {
    let mut votes: Vec<Vec<(u16, u32)>> = vec![Vec::new(); vertices];
    for (face, label) in faces {
        for i in face {
            match votes[i].iter_mut().find(|(known, _)| *known == label) {
                Some((_, count)) => *count += 1,
                None => votes[i].push((label, 1)),
            }
        }
    }
    let most = |votes: &Vec<(u16, u32)>| votes.iter().max_by_key(|(j, n)| (*n, Reverse(*j))).map(|vote| vote.0);
    votes.iter().map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_clusters_get_the_worst_vertices_that_can_be_spared() {
        let mut labels = [0, 0, 0, 3, 0];
        fill_empty(&mut labels, 4, |i, _| [1.0, 5.0, 2.0, 9.0, 5.0][i]);
        assert_eq!(labels, [0, 1, 0, 3, 2]);
    }

    #[test]
    fn faces_vote_for_their_vertices() {
        let faces = [([0, 1, 2], 4), ([1, 2, 3], 1), ([2, 3, 1], 1)];
        assert_eq!(majority(5, faces.into_iter()), [Some(4), Some(1), Some(1), Some(1), None]);
        assert_eq!(majority(1, [([0], 7), ([0], 2)].into_iter()), [Some(2)]);
    }
}
