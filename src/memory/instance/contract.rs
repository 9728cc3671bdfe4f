//! Contraction: fewer ops that have the same least peak.
//!
//! Two kinds of ops never need a place of their own:
//!
//! - **Followers.** An op that allocates nothing (a view, a statistic that was rounded away), and that has one
//!   predecessor p, runs right after p. Proof: moved there it only frees earlier; its own step costs what is live after
//!   p, which is no more than p's step costs.
//! - **Leaders.** An op that touches nothing that can die, needs no workspace, has one successor t, and creates only what
//!   t alone touches or what is kept, runs right before t. Proof: moved there it only allocates later; its own step costs what is live before t together with what
//!   it creates, and t's step costs at least that. What it creates is t's alone, so for the others it is workspace of
//!   t.
//!
//! Both moves keep every order valid, make no step dearer, and can be made one after the other; so there is an optimal
//! order in which each such op stands beside its partner, and a pair can be one op.
//!
//! **In place.** A follower that touches an operand of its partner keeps that operand alive after the partner's step, so
//! the partner cannot take it over, and the pair of operand and result is dropped. What a leader creates dies at its
//! partner in every order; where the partner may take it over, and neither side has another choice, it always does, and
//! its bytes are no workspace. With other choices the leader is left alone.
//!
//! **Twins.** Of two ops with the same predecessors, successors, operands, sizes and readers, the first in the order may
//! as well come first: exchanging them exchanges nothing else. So a dependency is added between them.
//!
//! Complexity: O((n + m) log(n + m)) but for hubs, whose lists are read once for each op that is merged into them until
//! two different neighbours are found.

use super::{Instance, Pair, Storage, Sums, raw};
use crate::id::{Adjacency, OpId, StorageId};

/// Ops that are being merged.
struct Merger<'i> {
    instance: &'i Instance,
    /// For each op the op that it was merged into; itself where it was not.
    into: Vec<u32>,
    /// For each op that stands, the ops that it stands for, in the order in which they run.
    members: Vec<Vec<OpId>>,
    sums: Vec<Sums>,
    pairs: Vec<Vec<Pair>>,
    /// Storages that are no longer counted by themselves.
    gone: Vec<bool>,
}

impl Instance {
    /// Merges ops as the module doc says; the ops of the result are numbered by the places of their partners in
    /// `order`, a valid order of the instance. Nothing may be live at the first step only (see
    /// [`rounded`](Self::rounded)): then it would matter which op is the first.
    pub(crate) fn contracted(&self, order: &[OpId]) -> Self {
        debug_assert_eq!(self.unused, 0);
        let n = self.n_ops();
        let mut merger = Merger {
            instance: self,
            into: (0..raw(n)).collect(),
            members: self.ops().map(|op| vec![op]).collect(),
            sums: self.sums.clone(),
            pairs: self.pairs.lists().map(<[Pair]>::to_vec).collect(),
            gone: vec![false; self.n_storages()],
        };
        let mut queue: Vec<OpId> = self.ops().rev().collect();
        while let Some(op) = queue.pop() {
            if let Some(partner) = merger.merge(op) {
                queue.push(partner);
                let neighbours = |op: &OpId| self.successors(*op).iter().chain(self.predecessors(*op));
                let near: Vec<OpId> = self.predecessors(op).iter().chain(self.successors(op)).copied().collect();
                queue.extend(near.iter().map(|op| merger.find(*op)));
                debug_assert!(neighbours(&op).count() == near.len());
            }
        }
        merger.finish(order)
    }
}

impl Merger<'_> {
    fn find(&mut self, op: OpId) -> OpId {
        let mut root = op;
        while self.into[root.index()] != raw(root.index()) {
            root = OpId::new(self.into[root.index()] as usize);
        }
        let mut at = op;
        while at != root {
            let next = std::mem::replace(&mut self.into[at.index()], raw(root.index()));
            at = OpId::new(next as usize);
        }
        root
    }

    /// The one other op among the neighbours that `of` lists, when there is just one.
    fn only(&mut self, op: OpId, of: impl Fn(&Instance, OpId) -> &[OpId]) -> Option<OpId> {
        let instance = self.instance;
        let mut only = None;
        for i in 0..self.members[op.index()].len() {
            for &other in of(instance, self.members[op.index()][i]) {
                let other = self.find(other);
                if other != op && *only.get_or_insert(other) != other {
                    return None;
                }
            }
        }
        only
    }

    fn touches_anything(&mut self, op: OpId) -> bool {
        let instance = self.instance;
        self.members[op.index()].iter().any(|m| instance.touches(*m).iter().any(|s| !self.gone[s.index()]))
    }

    /// Merges an op into its partner, if it has one: the partner.
    fn merge(&mut self, op: OpId) -> Option<OpId> {
        if self.into[op.index()] != raw(op.index()) {
            return None;
        }
        let sums = self.sums[op.index()];
        if sums.created == 0
            && sums.workspace == 0
            && let Some(before) = self.only(op, Instance::predecessors)
        {
            self.follow(op, before);
            return Some(before);
        }
        if sums.workspace == 0
            && sums.dead == 0
            && !self.touches_anything(op)
            && let Some(after) = self.only(op, Instance::successors)
            && self.lead(op, after)
        {
            return Some(after);
        }
        None
    }

    fn follow(&mut self, op: OpId, before: OpId) {
        let instance = self.instance;
        let members = std::mem::take(&mut self.members[op.index()]);
        self.into[op.index()] = raw(before.index());
        let touched: Vec<StorageId> = members.iter().flat_map(|m| instance.touches(*m).iter().copied()).collect();
        self.members[before.index()].extend(members);
        self.pairs[before.index()].retain(|pair| !touched.contains(&pair.from));
        for s in touched {
            self.settle(s, before);
        }
    }

    /// A storage that one op creates and alone touches ends with that op's step.
    fn settle(&mut self, storage: StorageId, op: OpId) {
        let instance = self.instance;
        let within = |merger: &mut Self, other: OpId| merger.find(other) == op;
        if !self.gone[storage.index()]
            && instance.creator(storage).is_some_and(|creator| within(self, creator))
            && instance.touchers(storage).iter().all(|t| within(self, *t))
        {
            self.gone[storage.index()] = true;
            self.sums[op.index()].dead += instance.bytes(storage);
        }
    }

    fn lead(&mut self, op: OpId, after: OpId) -> bool {
        let instance = self.instance;
        let created: Vec<StorageId> = self.members[op.index()]
            .iter()
            .flat_map(|m| instance.creates(*m).iter().copied())
            .filter(|s| !self.gone[s.index()])
            .collect();
        // An op that only waits for the successor may touch it too.
        for s in &created {
            if instance.touchers(*s).iter().any(|t| self.find(*t) != after) {
                return false;
            }
        }
        let pairs = &self.pairs[after.index()];
        let mut taken_over = 0;
        for pair in pairs.iter().filter(|pair| created.contains(&pair.from)) {
            if pairs.iter().filter(|other| other.from == pair.from || other.to == pair.to).count() > 1 {
                return false;
            }
            taken_over += pair.bytes;
        }
        self.pairs[after.index()].retain(|pair| !created.contains(&pair.from));
        let Sums { created: bytes, kept, .. } = self.sums[op.index()];
        let sums = &mut self.sums[after.index()];
        sums.created += kept;
        sums.kept += kept;
        sums.workspace += bytes - kept - taken_over;
        created.iter().for_each(|s| self.gone[s.index()] = true);
        let mut members = std::mem::take(&mut self.members[op.index()]);
        self.into[op.index()] = raw(after.index());
        members.append(&mut self.members[after.index()]);
        self.members[after.index()] = members;
        true
    }

    fn finish(mut self, order: &[OpId]) -> Instance {
        let instance = self.instance;
        let stands: Vec<OpId> = order.iter().copied().filter(|op| self.into[op.index()] == raw(op.index())).collect();
        let mut number = vec![0u32; instance.n_ops()];
        for (i, op) in (0u32..).zip(&stands) {
            number[op.index()] = i;
        }
        let here: Vec<OpId> = instance.ops().map(|op| OpId::new(number[self.find(op).index()] as usize)).collect();
        let here = |op: OpId| here[op.index()];
        let mut local = vec![None; instance.n_storages()];
        let mut storages = Vec::new();
        for s in instance.storages().filter(|s| !self.gone[s.index()]) {
            local[s.index()] = Some(StorageId::new(storages.len()));
            storages.push(Storage { bytes: instance.bytes(s), creator: instance.creator(s).map(here) });
        }
        let mut made = Instance::empty(stands.len(), storages, instance.base, instance.unused);
        let mut seen_op = vec![u32::MAX; stands.len()];
        let mut seen_storage = vec![u32::MAX; made.n_storages()];
        for (i, &op) in (0u32..).zip(&stands) {
            let members = &self.members[op.index()];
            made.names.push_list(members.iter().copied());
            made.sums.push(self.sums[op.index()]);
            let itself = OpId::new(i as usize);
            for m in members {
                for p in instance.predecessors(*m).iter().map(|p| here(*p)).filter(|p| *p != itself) {
                    if std::mem::replace(&mut seen_op[p.index()], i) != i {
                        made.predecessors.push(p);
                    }
                }
                for s in instance.touches(*m).iter().filter_map(|s| local[s.index()]) {
                    if made.storages[s.index()].creator != Some(itself)
                        && std::mem::replace(&mut seen_storage[s.index()], i) != i
                    {
                        made.touches.push(s);
                    }
                }
                made.creates.extend(instance.creates(*m).iter().filter_map(|s| local[s.index()]));
            }
            made.predecessors.close();
            made.touches.close();
            made.creates.close();
            let pairs = self.pairs[op.index()].iter();
            made.pairs.push_list(pairs.filter_map(|p| local[p.from.index()].map(|from| Pair { from, ..*p })));
        }
        made.link().with_twins_in_order()
    }
}

/// All that tells an op from its twin.
type Looks = (Vec<OpId>, Vec<OpId>, Sums, Vec<StorageId>, Vec<(u64, Vec<OpId>)>);

impl Instance {
    /// Adds a dependency from each op to its next twin.
    fn with_twins_in_order(mut self) -> Self {
        let mut last: hashbrown::HashMap<Looks, OpId> = hashbrown::HashMap::new();
        let mut after: Vec<Option<OpId>> = vec![None; self.n_ops()];
        for op in self.ops().filter(|op| self.pairs(*op).is_empty()) {
            let sorted = |list: &[OpId]| {
                let mut list = list.to_vec();
                list.sort_unstable();
                list
            };
            let mut creates: Vec<_> =
                self.creates(op).iter().map(|s| (self.bytes(*s), self.touchers(*s).to_vec())).collect();
            creates.sort_unstable();
            let mut touches = self.touches(op).to_vec();
            touches.sort_unstable();
            let looks = (sorted(self.predecessors(op)), sorted(self.successors(op)), self.sums(op), touches, creates);
            after[op.index()] = last.insert(looks, op);
        }
        let mut predecessors = Adjacency::default();
        for (op, list) in self.ops().zip(self.predecessors.lists()) {
            predecessors.push_list(list.iter().copied().chain(after[op.index()]));
        }
        self.predecessors = predecessors;
        self.link()
    }
}
