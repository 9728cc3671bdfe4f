//! greedy
use super::Best;
use crate::graph::Graph;
use crate::search::Search;
pub(super) fn improve(_graph: &Graph, _best: &mut Best, _search: &mut Search<'_>) {}
