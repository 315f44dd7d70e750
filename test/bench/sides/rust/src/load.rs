//! Time by the clock, and on processors: that of all threads of this process.

use std::time::{Duration, Instant};

fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills in what it is given, and for RUSAGE_SELF it can't fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

pub struct Load {
    since: Instant,
    cpu: Duration,
}

impl Load {
    pub fn start() -> Self {
        Load {
            since: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// Milliseconds by the clock since the start.
    pub fn ms(&self) -> f64 {
        self.since.elapsed().as_secs_f64() * 1e3
    }

    /// Milliseconds on processors since the start.
    pub fn cpu_ms(&self) -> f64 {
        (cpu_time() - self.cpu).as_secs_f64() * 1e3
    }
}
