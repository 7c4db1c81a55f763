//! User contexts of one batch: each token's is resolved once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::clock::Now;
use crate::context::{Contexts, Resolved};
use crate::model::{Digest, Refusal, Secret, VerifiedToken};

type Slot = Arc<OnceCell<Result<Resolved, Refusal>>>;

/// What the questions of one call share. A failure is shared too: the user API is asked once for
/// each user of a batch, whatever it says.
#[derive(Debug, Default)]
pub struct Users(Mutex<HashMap<Digest, Slot>>);

impl Users {
    pub(super) async fn of(
        &self,
        contexts: &dyn Contexts,
        token: &Arc<VerifiedToken>,
        bearer: &Secret<String>,
        now: Now,
    ) -> Result<Resolved, Refusal> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(token.hash).or_default())
        };
        let resolve = || async {
            match contexts.peek(token, &now) {
                Some(known) => known,
                None => contexts.resolve(token, bearer, now).await,
            }
        };
        slot.get_or_init(resolve).await.clone()
    }
}
