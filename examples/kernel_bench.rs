//! Speed of the matrix products on the shapes of SmolLM2-135M: bytes of weights read and products summed per second.
//!
//! `cargo run --example kernel_bench [-- scalar|avx2|avx512]`; it uses synthetic weights and needs no model.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use stepscope::arith::{
    ActivationRow, Isa, Kernels, MatrixView, OutputRows, PackedMatrix, TILE, WeightFormat, WeightMemory, scalar,
};

const LAYERS: usize = 30;
const HIDDEN: usize = 576;
const FEED_FORWARD: usize = 1536;
const KEY_VALUE: usize = 192;
const VOCABULARY: usize = 49152;
const SHORTEST_RUN: Duration = Duration::from_millis(400);

/// Matrices that are read one after another, as a forward pass does.
struct Workload {
    name: &'static str,
    matrices: Vec<PackedMatrix>,
}

impl Workload {
    fn layers(kernels: &Kernels, format: WeightFormat) -> anyhow::Result<Self> {
        let shapes = [
            (HIDDEN, HIDDEN),
            (KEY_VALUE, HIDDEN),
            (KEY_VALUE, HIDDEN),
            (HIDDEN, HIDDEN),
            (FEED_FORWARD, HIDDEN),
            (FEED_FORWARD, HIDDEN),
            (HIDDEN, FEED_FORWARD),
        ];
        let memory = &mut WeightMemory::new();
        let matrices = (0..LAYERS)
            .flat_map(|_| shapes)
            .map(|(rows, columns)| matrix(kernels, format, rows, columns, memory))
            .collect::<Result<_, _>>()?;
        Ok(Self { name: "30 layers", matrices })
    }

    fn head(kernels: &Kernels, format: WeightFormat) -> anyhow::Result<Self> {
        Ok(Self {
            name: "head",
            matrices: vec![matrix(kernels, format, VOCABULARY, HIDDEN, &mut WeightMemory::new())?],
        })
    }

    fn bytes(&self) -> usize {
        self.matrices.iter().map(PackedMatrix::bytes).sum()
    }

    fn products(&self) -> usize {
        self.matrices.iter().map(|matrix| matrix.rows() * matrix.columns()).sum()
    }

    /// Seconds per pass over all matrices with `rows` activation rows, on `threads` threads.
    fn seconds(&self, kernels: &Kernels, rows: usize, threads: usize) -> f64 {
        let parts: Vec<f64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|part| scope.spawn(move || self.worker_seconds(kernels, rows, part, threads)))
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or(f64::NAN)).collect()
        });
        parts.iter().sum::<f64>() / threads as f64
    }

    fn worker_seconds(&self, kernels: &Kernels, rows: usize, part: usize, threads: usize) -> f64 {
        let format = self.matrices[0].format();
        let longest = self.matrices.iter().map(PackedMatrix::columns).max().unwrap_or(0);
        let values: Vec<f32> = (0..longest).map(|i| (i as f32 * 0.7).sin()).collect();
        let activations = [HIDDEN, FEED_FORWARD]
            .map(|columns| vec![scalar::activation(format, &values[..columns.min(longest)]); rows]);
        let mut outputs = vec![0.0; rows * VOCABULARY];
        let mut pass = || {
            for matrix in &self.matrices {
                let activations: &[ActivationRow] = &activations[usize::from(matrix.columns() == FEED_FORWARD)];
                let outputs = OutputRows::new(&mut outputs[..rows * matrix.rows()], matrix.rows());
                let share = |part: usize| (matrix.rows() / TILE * part / threads) * TILE;
                // SAFETY: this thread's outputs are its own, and this is the only view of them.
                kernels.matmul(matrix, activations, unsafe { outputs.columns(share(part)..share(part + 1)) });
            }
        };
        pass();
        let (start, busy_start) = (Instant::now(), busy_seconds());
        let mut passes = 0;
        while start.elapsed() < SHORTEST_RUN || passes < 4 {
            pass();
            passes += 1;
        }
        (busy_seconds() - busy_start) / f64::from(passes)
    }
}

/// Processor time of this thread, so that a busy machine does not spoil the figures; NaN where Linux's is not to be had.
fn busy_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.map_or(f64::NAN, |nanoseconds| nanoseconds / 1e9)
}

fn matrix(
    kernels: &Kernels,
    format: WeightFormat,
    rows: usize,
    columns: usize,
    memory: &mut WeightMemory,
) -> anyhow::Result<PackedMatrix> {
    let length = rows * format.row_bytes(columns).context("whole blocks")?;
    // Small exponents whatever the bytes are taken for, so that no product is a NaN or a subnormal.
    let bytes: Vec<u8> = (0..length).map(|i| (i * 37 % 61) as u8).collect();
    Ok(kernels.pack(&MatrixView::new(format, rows, columns, &bytes)?, memory)?)
}

fn main() -> anyhow::Result<()> {
    let isa = match std::env::args().nth(1).as_deref() {
        None => Isa::detect(),
        Some(name) => match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
            Some(isa) => isa,
            None => bail!("expected scalar, avx2 or avx512, found `{name}`"),
        },
    };
    let kernels = Kernels::new(isa)?;
    println!("{isa}: {:<20} {:>6} {:>7} {:>9} {:>8} {:>8}", "workload", "rows", "threads", "ms/pass", "GB/s", "GMAC/s");
    let workloads = [
        Workload::layers(&kernels, WeightFormat::Q4_1)?,
        Workload::head(&kernels, WeightFormat::Q8_0)?,
        Workload::head(&kernels, WeightFormat::F16)?,
    ];
    for workload in workloads {
        for rows in [1, 4, 16, 64] {
            for threads in [1, 2] {
                let seconds = workload.seconds(&kernels, rows, threads);
                let name = format!("{} {}", workload.name, workload.matrices[0].format());
                println!(
                    "{isa}: {name:<20} {rows:>6} {threads:>7} {:>9.3} {:>8.2} {:>8.1}",
                    1e3 * seconds,
                    workload.bytes() as f64 / seconds / 1e9,
                    (rows * workload.products()) as f64 / seconds / 1e9,
                );
            }
        }
    }
    Ok(())
}
