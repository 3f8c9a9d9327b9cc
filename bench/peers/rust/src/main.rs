//! peers CASE KEYS admitted|denied OPERATIONS: nanoseconds of processor time per decision, and the
//! share of denied decisions.

use governor::{Quota, RateLimiter};
use quota::{QuotaPolicy, QuotaPool, RefillRate};
use std::num::NonZeroU32;
use std::time::SystemTime;

fn process_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Random keys, in the order of their use. The programs of all languages make the same ones.
fn keys_in_order(count: u64) -> Vec<String> {
    let mut x: u64 = 1;
    (0..1 << 18)
        .map(|_| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            format!("user:{:010}", (x >> 33) % count)
        })
        .collect()
}

fn measure(keys: &[String], operations: usize, mut allows: impl FnMut(&String) -> bool) {
    let mut run = |operations: usize| {
        let mut denied = 0;
        for i in 0..operations {
            denied += !allows(&keys[i & (keys.len() - 1)]) as usize;
        }
        denied
    };
    run(keys.len() * 2);
    let begin = process_seconds();
    let denied = run(operations);
    let seconds = process_seconds() - begin;
    println!("{:.2} {:.4}", seconds * 1e9 / operations as f64, denied as f64 / operations as f64);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let keys = keys_in_order(arguments[2].parse().unwrap());
    let many_denied = arguments[3] == "denied";
    let operations: usize = arguments[4].parse().unwrap();
    // A second thread: a program that shares a limiter has more than one.
    std::thread::spawn(|| loop {
        std::thread::park();
    });
    if arguments[1] == "governor" {
        let number = |n| NonZeroU32::new(n).unwrap();
        let limiter = RateLimiter::keyed(if many_denied {
            Quota::per_hour(number(2))
        } else {
            Quota::per_second(number(1)).allow_burst(number(1_000_000))
        });
        measure(&keys, operations, |key| limiter.check_key(key).is_ok());
    } else if arguments[1] == "quota" {
        let (capacity, rate) =
            if many_denied { (2, RefillRate::per_hour(2)) } else { (1_000_000, RefillRate::per_sec(1)) };
        let policy = QuotaPolicy::new().set_capacity(capacity as f64).set_refill_rate(rate);
        let pool: QuotaPool = QuotaPool::new(policy, capacity);
        measure(&keys, operations, |key| pool.consume(key.as_str(), 1).is_ok());
    } else {
        let mut limiter = throttlecrab::RateLimiter::new(throttlecrab::PeriodicStore::new());
        let (burst, count, period) = if many_denied { (2, 2, 3600) } else { (1_000_000, 1, 1) };
        measure(&keys, operations, |key| {
            limiter.rate_limit(key, burst, count, period, 1, SystemTime::now()).unwrap().0
        });
    }
}
