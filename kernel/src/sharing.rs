//! How values are written, shared by all templates: most columns of most tables have one of a few ways.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::ops::How;

/// Below so many ways, none is removed.
const FEW: usize = 64;

/// The ways that were met.
pub struct Ways {
    /// By Python's hash of each, the same for equal ones.
    met: HashMap<isize, Arc<How>, RandomState>,
    /// At so many, those that no template uses are removed.
    full: usize,
}

impl Default for Ways {
    fn default() -> Self {
        Self { met: HashMap::default(), full: FEW }
    }
}

impl Ways {
    /// The one that is equal to this and was met before, or this one.
    pub fn shared(&mut self, hash: isize, how: How) -> Arc<How> {
        if let Some(met) = self.met.get(&hash).filter(|met| ***met == how) {
            return Arc::clone(met);
        }
        if self.met.len() >= self.full {
            self.met.retain(|_, how| Arc::strong_count(how) > 1);
            self.full = FEW.max(2 * self.met.len());
        }
        let how = Arc::new(how);
        self.met.insert(hash, Arc::clone(&how));
        how
    }
}
