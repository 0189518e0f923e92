//! Every kernel of every path that this machine supports, against the scalar form, bit for bit.

mod attention;
mod matmul;
mod rows;
mod support;
