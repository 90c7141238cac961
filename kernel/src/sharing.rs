//! How values are written, shared by all templates: most columns of most tables have one of a few ways.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ops::How;
use crate::reading::meaningless;

/// Below so many ways, none is removed.
const FEW: usize = 64;

/// The ways that were met.
pub struct Ways {
    /// Each with the tuple that it was read from, by Python's hash of that.
    met: HashMap<isize, (Py<PyTuple>, Arc<How>), RandomState>,
    /// At so many, those that no template uses are removed.
    full: usize,
}

impl Default for Ways {
    fn default() -> Self {
        Self { met: HashMap::default(), full: FEW }
    }
}

impl Ways {
    /// The one that was read from an equal tuple before, or the one that `read` gives.
    pub fn shared(
        &mut self,
        tuple: &Bound<'_, PyTuple>,
        read: impl FnOnce() -> PyResult<How>,
    ) -> PyResult<Arc<How>> {
        let hash = tuple.hash().map_err(|_| meaningless("a field is of another type"))?;
        if let Some((met, how)) = self.met.get(&hash) {
            if tuple.eq(met)? {
                return Ok(Arc::clone(how));
            }
        }
        if self.met.len() >= self.full {
            self.met.retain(|_, (_, how)| Arc::strong_count(how) > 1);
            self.full = FEW.max(2 * self.met.len());
        }
        let how = Arc::new(read()?);
        self.met.insert(hash, (tuple.clone().unbind(), Arc::clone(&how)));
        Ok(how)
    }
}
