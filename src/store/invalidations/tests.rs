use super::*;
use crate::store::{Life, Memory, Places};

/// A process over a store that it shares.
struct Replica {
    invalidations: Arc<Invalidations>,
    metrics: Metrics,
    listening: Option<tokio::task::JoinHandle<()>>,
}

fn store(clock: &Clock) -> Arc<dyn Store> {
    Arc::new(Memory::new(1 << 20, clock.clone(), &Metrics::new()))
}

fn user(subject: &str) -> Target {
    Target::User(Digest::of_user("i", subject))
}

impl Replica {
    fn new(store: &Arc<dyn Store>, clock: &Clock) -> Self {
        let metrics = Metrics::new();
        let invalidations = Invalidations::new(Arc::clone(store), clock.clone(), &metrics);
        Self { invalidations, metrics, listening: None }
    }

    /// Hears messages, and reads the head where it subscribes and where one was missed alone.
    async fn listen(&mut self) {
        let invalidations = Arc::clone(&self.invalidations);
        self.listening = Some(tokio::spawn(async move {
            let subscriber = Arc::clone(&invalidations) as Arc<dyn Subscriber>;
            invalidations.store.subscribe(CHANNEL, subscriber).await;
        }));
        self.until(|replica| replica.invalidations.standing().subscribed).await;
    }

    async fn until(&self, done: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    }

    fn cut_off(&mut self) {
        self.listening.take().unwrap().abort();
    }

    fn life(&self, subject: &str) -> Life {
        let places = Places::of_user(&Digest::of_user("i", subject), "i");
        Life::new(self.invalidations.generations(), places)
    }

    async fn generation(&self, subject: &str) -> String {
        self.invalidations.ready().await;
        let user = Digest::of_user("i", subject);
        self.invalidations.generation(&user, "i").await.unwrap()
    }

    fn counts(&self, how: &str, kind: &str) -> f64 {
        let text = self.metrics.render().unwrap();
        let name = format!("portcullis_invalidations_total{{how=\"{how}\",kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    }
}

#[tokio::test]
async fn s5_8_every_replica_hears_of_an_invalidation() {
    let clock = Clock::system();
    let store = store(&clock);
    let (mut one, mut two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    one.listen().await;
    two.listen().await;
    for target in [user("ann"), Target::Issuer("i".to_owned()), Target::Everything] {
        let (ann, bob) = (two.life("ann"), two.life("bob"));
        let here = one.life("ann");
        let before = (two.generation("ann").await, two.generation("bob").await);
        one.invalidations.invalidate(&target, &[]).await.unwrap();
        assert!(here.is_over());
        two.until(|_| ann.is_over()).await;
        assert_eq!(bob.is_over(), target != user("ann"), "{target:?}");
        assert_ne!(two.generation("ann").await, before.0, "{target:?}");
        assert_eq!(two.generation("bob").await != before.1, target != user("ann"), "{target:?}");
        assert_eq!(one.generation("ann").await, two.generation("ann").await);
        assert!((two.counts("received", target.kind()) - 1.0).abs() < f64::EPSILON);
    }
    assert_eq!(one.invalidations.standing(), two.invalidations.standing());
    assert!(one.metrics.render().unwrap().contains("portcullis_subscription_up 1\n"));
}

#[tokio::test]
async fn s5_8_what_was_missed_is_read_on_the_next_subscription() {
    let clock = Clock::system();
    let store = store(&clock);
    let (mut one, mut two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    one.listen().await;
    two.listen().await;
    let (ann, bob) = (two.life("ann"), two.life("bob"));
    two.cut_off();
    one.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    assert!(!ann.is_over(), "it cannot know");
    two.invalidations.lost();
    two.listen().await;
    assert!(ann.is_over() && !bob.is_over());
    assert!((two.counts("missed", "user") - 1.0).abs() < f64::EPSILON);
    // More than the head lists, or a head that is gone: everything.
    for lost in [false, true] {
        let bob = two.life("bob");
        two.cut_off();
        if lost {
            store.delete(HEAD).await.unwrap();
        } else {
            for n in 0..200 {
                one.invalidations.invalidate(&user(&n.to_string()), &[]).await.unwrap();
            }
        }
        two.invalidations.lost();
        two.listen().await;
        assert!(bob.is_over(), "{lost}");
    }
}

#[tokio::test]
async fn s5_8_a_message_that_was_lost_shows_with_the_next() {
    let clock = Clock::system();
    let store = store(&clock);
    let one = Replica::new(&store, &clock);
    let mut two = Replica::new(&store, &clock);
    two.listen().await;
    let (ann, bob) = (two.life("ann"), two.life("bob"));
    // It is raised, and no message comes.
    one.invalidations.raise(&user("ann")).await.unwrap();
    one.invalidations.invalidate(&user("bob"), &[]).await.unwrap();
    two.until(|_| bob.is_over() && ann.is_over()).await;
    // What cannot be read may have been anything.
    let cut = two.life("cut");
    one.invalidations.raise(&user("cut")).await.unwrap();
    store.publish(CHANNEL, Bytes::from_static(b"{")).await.unwrap();
    two.until(|_| cut.is_over()).await;
}

#[tokio::test]
async fn s5_8_generations_of_many_that_invalidate_at_once_all_count() {
    let clock = Clock::system();
    let store = store(&clock);
    let replicas: Vec<_> = (0..8).map(|_| Replica::new(&store, &clock)).collect();
    let all = replicas.iter().enumerate().map(|(n, replica)| {
        let target = user(&n.to_string());
        async move { replica.invalidations.invalidate(&target, &[]).await.unwrap() }
    });
    let mut generations = futures_util::future::join_all(all).await;
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), 8, "no two have the same");
    let head = Head::read(&store.get(HEAD).await.unwrap().unwrap()).unwrap();
    let told = head.since(&Head::default()).unwrap();
    assert_eq!(told.len(), 9, "none put out another, and the list began with everything");
}

#[tokio::test]
async fn a_head_that_nobody_can_read_is_replaced_and_counts_as_everything() {
    let clock = Clock::system();
    let store = store(&clock);
    let (one, mut two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    two.listen().await;
    one.invalidations.invalidate(&user("cut"), &[]).await.unwrap();
    two.until(|replica| replica.invalidations.standing().generation > 0).await;
    let bob = two.life("bob");
    store.set(HEAD, Bytes::from_static(b"{\"at\":"), HEAD_STAYS).await.unwrap();
    one.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    two.until(|_| bob.is_over()).await;
    assert!(Head::read(&store.get(HEAD).await.unwrap().unwrap()).is_some());
}

#[tokio::test]
async fn the_first_reading_counts_what_happened_since_the_process_began() {
    let clock = Clock::manual(10_000);
    let store = store(&clock);
    let early = Replica::new(&store, &clock);
    early.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    clock.advance(Duration::from_mins(10));
    let mut late = Replica::new(&store, &clock);
    let kept = late.life("bob");
    late.listen().await;
    assert!(!kept.is_over(), "long before it began");
    let mut unlucky = Replica::new(&store, &clock);
    let kept = unlucky.life("bob");
    early.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    unlucky.listen().await;
    assert!(kept.is_over(), "it may have kept something of before");
}

#[tokio::test]
async fn s5_8_what_no_message_tells_is_read_within_seconds() {
    let clock = Clock::system();
    let store = store(&clock);
    let (one, two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    let listening = tokio::spawn(Arc::clone(&two.invalidations).listen());
    two.until(|replica| replica.invalidations.standing().subscribed).await;
    let (ann, bob) = (two.life("ann"), two.life("bob"));
    one.invalidations.raise(&user("ann")).await.unwrap();
    two.until(|_| ann.is_over()).await;
    assert!(!bob.is_over());
    listening.abort();
}

#[tokio::test]
async fn s5_8_who_invalidates_over_what_it_missed_believes_nothing_old() {
    for target in [Target::Issuer("i".to_owned()), Target::Everything, user("cid")] {
        let clock = Clock::system();
        let store = store(&clock);
        let (one, two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
        let before = one.generation("ann").await;
        let (bob, dan) = (one.life("bob"), one.life("dan"));
        // No message of it comes to the first.
        two.generation("ann").await;
        two.invalidations.raise(&user("bob")).await.unwrap();
        one.invalidations.invalidate(&target, &[]).await.unwrap();
        assert!(bob.is_over(), "{target:?}");
        let narrow = target == user("cid");
        assert_eq!(dan.is_over(), !narrow, "{target:?}");
        assert_eq!(one.generation("ann").await == before, narrow, "{target:?}");
        assert!((one.counts("missed", "user") - 1.0).abs() < f64::EPSILON);
        two.invalidations.reread().await.unwrap();
        assert_eq!(one.generation("ann").await, two.generation("ann").await);
        assert_eq!(one.invalidations.standing(), two.invalidations.standing());
    }
}

#[tokio::test]
async fn s5_8_who_invalidates_before_its_first_reading_misses_nothing_told_since_it_began() {
    let clock = Clock::manual(10_000);
    let store = store(&clock);
    let other = Replica::new(&store, &clock);
    other.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    clock.advance(Duration::from_mins(10));
    for missed in [false, true] {
        let late = Replica::new(&store, &clock);
        let kept = late.life("ann");
        if missed {
            other.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
        }
        late.invalidations.invalidate(&user("bob"), &[]).await.unwrap();
        assert_eq!(kept.is_over(), missed);
        clock.advance(Duration::from_mins(10));
    }
}

#[tokio::test]
async fn s5_8_what_is_told_ends_nothing_before_its_generation_is_known() {
    let clock = Clock::system();
    let store = store(&clock);
    let (one, two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    two.generation("ann").await;
    let (after, raised) = one.invalidations.raise(&Target::Issuer("i".to_owned())).await.unwrap();
    let message = Message { from: 0, after, raised };
    let ann = two.life("ann");
    let hearing = {
        // Whoever loads now reads the old generation.
        let _known = two.invalidations.known();
        let invalidations = Arc::clone(&two.invalidations);
        let hearing = std::thread::spawn(move || invalidations.take(&message));
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(2));
            assert!(!ann.is_over(), "a load that begins now would keep what it finds");
        }
        hearing
    };
    hearing.join().unwrap();
    assert!(ann.is_over());
}

/// A store that shows another replica each head that is written, at once.
struct Shown {
    store: Arc<dyn Store>,
    to: Arc<Invalidations>,
    seen: Mutex<Vec<String>>,
}

impl Shown {
    async fn show(&self, key: &str, done: bool) -> Result<bool, StoreError> {
        if done && key == HEAD {
            self.to.reread().await?;
            let seen = self.to.generation(&Digest::of_user("i", "ann"), "i").await?;
            self.seen.lock().unwrap().push(seen);
        }
        Ok(done)
    }
}

impl Store for Shown {
    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>> {
        self.store.get(key)
    }

    fn set<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, ()> {
        self.store.set(key, value, ttl)
    }

    fn set_if_absent<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, bool> {
        Box::pin(
            async move { self.show(key, self.store.set_if_absent(key, value, ttl).await?).await },
        )
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Bytes,
        ttl: Duration,
    ) -> Storing<'a, bool> {
        Box::pin(async move {
            self.show(key, self.store.compare_and_swap(key, expected, value, ttl).await?).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Storing<'a, ()> {
        self.store.delete(key)
    }

    fn publish<'a>(&'a self, _: &'a str, _: Bytes) -> Storing<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn subscribe<'a>(&'a self, _: &'a str, _: Arc<dyn Subscriber>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn s5_8_who_reads_the_head_early_reads_the_users_new_generation() {
    let clock = Clock::system();
    let store = store(&clock);
    let two = Replica::new(&store, &clock);
    let before = two.generation("ann").await;
    let ann = two.life("ann");
    let to = Arc::clone(&two.invalidations);
    let shown = Arc::new(Shown { store, to, seen: Mutex::default() });
    let one = Replica::new(&(Arc::clone(&shown) as Arc<dyn Store>), &clock);
    one.invalidations.invalidate(&user("ann"), &[]).await.unwrap();
    let seen = shown.seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|seen| *seen != before), "{before} {seen:?}");
    assert!(ann.is_over());
    assert_eq!(seen.last(), Some(&two.generation("ann").await));
}

#[tokio::test]
async fn s5_8_a_head_that_is_lost_revives_no_generation() {
    let clock = Clock::manual(10_000);
    let store = store(&clock);
    let (one, two) = (Replica::new(&store, &clock), Replica::new(&store, &clock));
    let mut seen = vec![one.generation("ann").await];
    one.invalidations.invalidate(&Target::Everything, &[]).await.unwrap();
    seen.push(one.generation("ann").await);
    for by_invalidating in [false, true] {
        clock.advance(Duration::from_secs(1));
        store.delete(HEAD).await.unwrap();
        if by_invalidating {
            one.invalidations.invalidate(&user("bob"), &[]).await.unwrap();
        } else {
            one.invalidations.reread().await.unwrap();
        }
        let now = one.generation("ann").await;
        assert!(!seen.contains(&now), "{now} {seen:?}");
        seen.push(now);
        two.invalidations.reread().await.unwrap();
        assert_eq!(two.generation("ann").await, one.generation("ann").await);
    }
}
