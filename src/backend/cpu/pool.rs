//! The threads that compute: one broadcast, dispatched in well under a microsecond.
//!
//! A decode step of a small model is some 150 parallel regions of a few tens of microseconds each. A general work
//! queue costs about as much per region as the region itself, so the workers here spin on one counter between
//! regions, and park only when the engine has been elsewhere for a while.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long an idle worker spins before it parks: longer than sampling takes between two steps.
const SPIN_TIME: Duration = Duration::from_millis(2);
/// Spins between two looks at the clock, after which other threads of the machine get a chance to run.
const SPINS_PER_YIELD: u32 = 2_000;

/// A fixed set of threads that all run the same closure at the same time.
pub(super) struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// The message of a panic inside [`ThreadPool::run`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RegionPanicked(pub String);

/// A closure with its lifetime erased; see the SAFETY comment in [`ThreadPool::run`].
type Region = *const (dyn Fn(usize) + Sync);

/// Keeps a counter that one thread writes off the cache line that others spin on.
#[repr(align(128))]
struct CacheLine<T>(T);

struct Shared {
    /// Counts regions; a change tells the workers that `region` is to be run.
    epoch: CacheLine<AtomicU64>,
    /// Workers that have not finished the current region.
    running: CacheLine<AtomicUsize>,
    region: UnsafeCell<Option<Region>>,
    /// Per worker: whether it has parked, or is about to.
    parked: Box<[CacheLine<AtomicBool>]>,
    panicked: Mutex<Option<String>>,
    stopping: AtomicBool,
}

// SAFETY: `region` is the only part that is not `Sync`. It is written by the owner of the `ThreadPool` while no worker
// runs (`running` is 0, acquired), and read by workers after they acquired the change of `epoch` that follows the write.
// The closure behind the pointer is `Sync`. Test: `regions_never_overlap`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in `Shared` is tied to the thread that made it.
unsafe impl Send for Shared {}

impl ThreadPool {
    /// Starts `threads - 1` workers; the thread that calls [`run`](Self::run) is the remaining one.
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let workers = threads.saturating_sub(1);
        let shared = Arc::new(Shared {
            epoch: CacheLine(AtomicU64::new(0)),
            running: CacheLine(AtomicUsize::new(0)),
            region: UnsafeCell::new(None),
            parked: (0..workers).map(|_| CacheLine(AtomicBool::new(false))).collect(),
            panicked: Mutex::new(None),
            stopping: AtomicBool::new(false),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(workers) };
        for worker in 0..workers {
            let shared = Arc::clone(&pool.shared);
            let name = format!("stepscope-cpu-{}", worker + 1);
            pool.workers.push(thread::Builder::new().name(name).spawn(move || shared.work(worker))?);
        }
        Ok(pool)
    }

    /// Number of threads, the caller's included.
    pub(super) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `region(thread_index)` on every thread, indices `0..threads()`, and returns when all have finished.
    ///
    /// The first panic among them is returned after all threads have finished or panicked.
    pub(super) fn run(&mut self, region: &(dyn Fn(usize) + Sync)) -> Result<(), RegionPanicked> {
        if !self.workers.is_empty() {
            // SAFETY: only the lifetime changes. Workers use the pointer between the change of `epoch` below and their
            // decrement of `running`, and this function does not return, nor unwind, before `running` is 0.
            // Test: `borrows_end_with_the_region`.
            let erased: Region = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Region>(region) };
            // SAFETY: `running` is 0 (the last run waited for it) and `&mut self` excludes another run, so no worker
            // reads `region` now.
            unsafe { *self.shared.region.get() = Some(erased) };
            self.shared.running.0.store(self.workers.len(), Ordering::Relaxed);
            self.announce();
        }
        self.shared.run_caught(|| region(0));
        self.shared.wait_for_workers();
        self.shared.outcome()
    }

    /// Splits `0..items` evenly into one run of whole units of `unit` items per thread.
    ///
    /// A single unit runs on the calling thread without waking anyone.
    pub(super) fn split(
        &mut self,
        items: usize,
        unit: usize,
        part: &(dyn Fn(Range<usize>) + Sync),
    ) -> Result<(), RegionPanicked> {
        let units = items.div_ceil(unit);
        if units <= 1 {
            return self.run_here(|| part(0..items));
        }
        let threads = self.threads();
        self.run(&|thread| {
            let range = share(units, threads, thread);
            if !range.is_empty() {
                part(range.start * unit..items.min(range.end * unit));
            }
        })
    }

    /// Runs `part` for every item, on whichever thread is free: for items of uneven cost.
    pub(super) fn claim(&mut self, items: usize, part: &(dyn Fn(usize) + Sync)) -> Result<(), RegionPanicked> {
        let next = AtomicUsize::new(0);
        self.run(&|_| {
            loop {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= items {
                    return;
                }
                part(item);
            }
        })
    }

    fn run_here(&self, part: impl FnOnce()) -> Result<(), RegionPanicked> {
        self.shared.run_caught(part);
        self.shared.outcome()
    }

    /// Tells the workers of a new epoch, and wakes those that sleep.
    fn announce(&self) {
        // Sequentially consistent, as is the worker's pair of store and load: either this thread sees `parked`, or the
        // worker sees the new epoch.
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        for (worker, parked) in self.workers.iter().zip(&self.shared.parked) {
            if parked.0.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.announce();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a region, so there is none to report here.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The life of worker number `worker`.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            seen = self.next_epoch(worker, seen);
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the epoch changed and this worker has not counted itself as finished, so the owner waits in
            // `run` and does not write `region`.
            if let Some(region) = unsafe { *self.region.get() } {
                // SAFETY: the closure lives until `run` returns, which waits for the decrement below.
                self.run_caught(|| unsafe { (*region)(worker + 1) });
            }
            self.running.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until the epoch is no longer `seen`, and returns it.
    fn next_epoch(&self, worker: usize, seen: u64) -> u64 {
        let started = Instant::now();
        loop {
            for _ in 0..SPINS_PER_YIELD {
                let epoch = self.epoch.0.load(Ordering::Acquire);
                if epoch != seen {
                    return epoch;
                }
                std::hint::spin_loop();
            }
            if started.elapsed() < SPIN_TIME {
                thread::yield_now();
                continue;
            }
            let parked = &self.parked[worker].0;
            parked.store(true, Ordering::SeqCst);
            while self.epoch.0.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            parked.store(false, Ordering::Relaxed);
        }
    }

    fn wait_for_workers(&self) {
        loop {
            for _ in 0..SPINS_PER_YIELD {
                if self.running.0.load(Ordering::Acquire) == 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
    }

    fn outcome(&self) -> Result<(), RegionPanicked> {
        match self.panicked.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(message) => Err(RegionPanicked(message)),
            None => Ok(()),
        }
    }

    fn run_caught(&self, part: impl FnOnce()) {
        // What a region leaves half done is not looked at again: the backend refuses to go on after a panic.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(part)) {
            let mut first = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| panic_text(payload.as_ref()));
        }
    }
}

/// Share number `thread` of `threads` even shares of `0..units`.
pub(super) fn share(units: usize, threads: usize, thread: usize) -> Range<usize> {
    units * thread / threads..units * (thread + 1) / threads
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_runs_once_per_region() {
        for threads in 1..=4 {
            let mut pool = ThreadPool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..2_000 {
                pool.run(&|index| {
                    counts[index].fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 2_000));
        }
    }

    /// A region that began before the one before it ended would see a torn or foreign value.
    #[test]
    fn regions_never_overlap() {
        let mut pool = ThreadPool::new(3).unwrap();
        let cells: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
        for round in 0..20_000u64 {
            pool.run(&|index| {
                // Every cell still holds the last round: nobody has begun the next region.
                cells[index].fetch_add(1, Ordering::Relaxed);
                assert!(cells.iter().all(|cell| [round, round + 1].contains(&cell.load(Ordering::Relaxed))));
            })
            .unwrap();
            assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == round + 1));
        }
    }

    /// Data on the caller's stack is written by all threads and dropped right after the region.
    #[test]
    fn borrows_end_with_the_region() {
        let mut pool = ThreadPool::new(3).unwrap();
        for round in 0..5_000usize {
            let sums: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
            pool.run(&|index| {
                for sum in &sums {
                    sum.fetch_add(index + round, Ordering::Relaxed);
                }
            })
            .unwrap();
            assert!(sums.iter().all(|sum| sum.load(Ordering::Relaxed) == 3 + 3 * round));
        }
    }

    #[test]
    fn split_and_claim_cover_every_item_once() {
        for threads in 1..=3 {
            let mut pool = ThreadPool::new(threads).unwrap();
            for (items, unit) in [(0, 4), (1, 4), (4, 4), (5, 4), (31, 8), (64, 1)] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                pool.split(items, unit, &|range| {
                    assert!(range.start.is_multiple_of(unit));
                    for count in &counts[range] {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .unwrap();
                pool.claim(items, &|item| {
                    counts[item].fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
                assert!(
                    counts.iter().all(|count| count.load(Ordering::Relaxed) == 2),
                    "{items} items, {threads} threads"
                );
            }
        }
    }

    #[test]
    fn parked_workers_wake() {
        let mut pool = ThreadPool::new(3).unwrap();
        for _ in 0..5 {
            while !pool.shared.parked.iter().all(|parked| parked.0.load(Ordering::SeqCst)) {
                thread::yield_now();
            }
            let count = AtomicUsize::new(0);
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn a_panic_on_any_thread_is_returned_and_the_pool_goes_on() {
        let mut pool = ThreadPool::new(3).unwrap();
        for guilty in 0..3 {
            let finished = AtomicUsize::new(0);
            let result = pool.run(&|index| {
                assert!(index != guilty, "thread {index} is at fault");
                finished.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(result, Err(RegionPanicked(format!("thread {guilty} is at fault"))));
            assert_eq!(finished.load(Ordering::Relaxed), 2);
            assert_eq!(pool.run(&|_| ()), Ok(()));
        }
    }
}
