//! Where a matrix product writes: columns of a row-major matrix that several threads share.

use std::marker::PhantomData;
use std::ops::Range;

/// The output of a matrix product, row-major `[activation row][output]`, borrowed for the time in which threads write
/// disjoint columns of it.
#[derive(Debug)]
pub struct OutputRows<'a> {
    values: *mut f32,
    rows: usize,
    outputs: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: `OutputRows` owns the exclusive borrow of its floats; the only way from a shared reference to a float is
// `columns`, whose contract keeps the columns of different threads apart.
unsafe impl Send for OutputRows<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for OutputRows<'_> {}

impl<'a> OutputRows<'a> {
    /// Views `values` as rows of `outputs` floats.
    ///
    /// # Panics
    ///
    /// If `values` is not a whole number of rows.
    pub fn new(values: &'a mut [f32], outputs: usize) -> Self {
        assert!(outputs > 0 && values.len().is_multiple_of(outputs), "{} values in rows of {outputs}", values.len());
        Self { rows: values.len() / outputs, outputs, values: values.as_mut_ptr(), borrow: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Outputs per row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// All columns, for a single writer.
    pub fn all(&mut self) -> OutputColumns<'_> {
        // SAFETY: `&mut self` excludes every other view of these floats.
        unsafe { self.columns(0..self.outputs) }
    }

    /// The columns `range` of every row, for one of several writers.
    ///
    /// # Safety
    ///
    /// While the returned view lives, no other view of this output may cover any of the columns in `range`.
    ///
    /// # Panics
    ///
    /// If `range` goes past the outputs.
    pub unsafe fn columns(&self, range: Range<usize>) -> OutputColumns<'_> {
        assert!(range.start <= range.end && range.end <= self.outputs, "columns {range:?} of {}", self.outputs);
        OutputColumns { values: self.values, rows: self.rows, outputs: self.outputs, range, borrow: PhantomData }
    }
}

/// Some columns of every row of an output, with the exclusive right to write them.
#[derive(Debug)]
pub struct OutputColumns<'a> {
    values: *mut f32,
    rows: usize,
    outputs: usize,
    range: Range<usize>,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: an `OutputColumns` is an exclusive borrow of its floats, as `&mut [f32]` is.
unsafe impl Send for OutputColumns<'_> {}

impl OutputColumns<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which columns these are.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The columns of one row that stand in both `columns` and this view, to be written.
    ///
    /// # Panics
    ///
    /// If `row` or `columns` goes past this view.
    pub fn row_mut(&mut self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert!(
            self.range.start <= columns.start && columns.start <= columns.end && columns.end <= self.range.end,
            "columns {columns:?} of {:?}",
            self.range
        );
        // SAFETY: `OutputRows::new` checked that the buffer holds `rows * outputs` floats and the asserts above keep
        // this slice inside it; the view has the exclusive right to its columns, and `&mut self` to this slice.
        unsafe {
            let start = self.values.add(row * self.outputs + columns.start);
            std::slice::from_raw_parts_mut(start, columns.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_disjoint_columns() {
        let mut values = vec![0.0; 3 * 10];
        let output = OutputRows::new(&mut values, 10);
        std::thread::scope(|scope| {
            for range in [0..4, 4..10] {
                let output = &output;
                scope.spawn(move || {
                    // SAFETY: the two ranges are disjoint.
                    let mut columns = unsafe { output.columns(range.clone()) };
                    for row in 0..columns.rows() {
                        for column in range.clone() {
                            columns.row_mut(row, column..column + 1)[0] = (row * 10 + column) as f32;
                        }
                    }
                });
            }
        });
        assert!(values.iter().enumerate().all(|(index, &value)| value == index as f32), "{values:?}");
    }

    #[test]
    #[should_panic(expected = "columns 3..5 of 0..4")]
    fn a_view_refuses_columns_outside_it() {
        let mut values = vec![0.0; 10];
        let output = OutputRows::new(&mut values, 10);
        // SAFETY: this is the only view.
        let mut columns = unsafe { output.columns(0..4) };
        columns.row_mut(0, 3..5);
    }

    #[test]
    #[should_panic(expected = "7 values in rows of 2")]
    fn an_output_is_whole_rows() {
        OutputRows::new(&mut [0.0; 7], 2);
    }
}
